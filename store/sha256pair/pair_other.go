//go:build !amd64

package sha256pair

func able() bool { return false }

func faster() bool { return false }

func blocks(*state, *byte, *byte, int) { panic("sha256pair: blocks is not able to run here") }
