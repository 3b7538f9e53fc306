package build

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An abi is one table of system calls of a machine, and the numbers in it of
// chown(2), fchown(2), lchown(2) and fchownat(2), and of their 32-bit forms.
type abi struct {
	audit  uint32
	chowns []uint32
}

// abis returns what programs of this machine may use; nil where nobody has
// looked the numbers up. They are those of linux/arch/*/syscalls.
func abis() []abi {
	switch runtime.GOARCH {
	case "amd64":
		return []abi{{unix.AUDIT_ARCH_X86_64, []uint32{92, 93, 94, 260}}, {unix.AUDIT_ARCH_I386, []uint32{182, 95, 16, 212, 207, 198, 298}}}
	case "arm64":
		return []abi{{unix.AUDIT_ARCH_AARCH64, []uint32{54, 55}}, {unix.AUDIT_ARCH_ARM, []uint32{182, 95, 16, 212, 207, 198, 325}}}
	case "riscv64":
		return []abi{{unix.AUDIT_ARCH_RISCV64, []uint32{54, 55}}}
	}
	return nil
}

// keepOwners lets the programs that this thread starts change no owner, and
// believe that they did. In a user namespace most owners do not exist, and
// layers have root alone: what unpacks an archive of somebody else's files must
// not fail for that, nor make another layer for the machine's root. See
// seccomp(2). Where the kernel refuses, they fail.
func keepOwners() {
	// struct seccomp_data has the number at 0 and the architecture at 4.
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: uint8(yes), Jf: uint8(no)}
	}
	end := func(with uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
	}
	program := []unix.SockFilter{load(4)}
	for _, a := range abis() {
		n := len(a.chowns)
		program = append(program, equal(a.audit, 0, n+3), load(0))
		for i, number := range a.chowns {
			program = append(program, equal(number, n-i, 0))
		}
		program = append(program, end(unix.SECCOMP_RET_ALLOW), end(unix.SECCOMP_RET_ERRNO)) // no error: success
	}
	program = append(program, end(unix.SECCOMP_RET_ALLOW))
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_ = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f)), 0, 0)
}
