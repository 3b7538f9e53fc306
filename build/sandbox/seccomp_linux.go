package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h). An argument is 64 bits wide;
// of the checked ones only the low half counts, which is first on the processors
// of abis.
const (
	numberOffset = 0
	archOffset   = 4
	argOffset    = 16
)

const (
	seccompAllow = unix.SECCOMP_RET_ALLOW
	seccompDone  = unix.SECCOMP_RET_ERRNO // error number 0: success, and nothing was done
)

func seccompError(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// filterCalls installs a seccomp filter for the programs that this thread
// starts: deniedCalls fail with EPERM. With keepOwners, calls that change an
// owner succeed and do nothing: layers record root as owner, and in a user
// namespace of one user other owners do not exist, so tar and dpkg would fail. A
// kernel without seccomp, and a processor that abis lacks, go without the filter.
func filterCalls(keepOwners bool) error {
	program, err := filter(abis(), keepOwners)
	if err != nil || len(program) == 0 {
		return err
	}
	code := make([]unix.SockFilter, len(program))
	for i, in := range program {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	f := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f)), 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: a kernel without seccomp
		return fmt.Errorf("install the seccomp filter: %w", err)
	}
	return nil
}

// filter assembles the program. Calls of another table than those of list fail.
func filter(list []abi, keepOwners bool) ([]bpf.RawInstruction, error) {
	if len(list) == 0 {
		return nil, nil
	}
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: archOffset, Size: 4}}
	for _, a := range list {
		rules := a.rules(keepOwners)
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.arch, SkipTrue: 1}, bpf.Jump{Skip: uint32(len(rules))})
		program = append(program, rules...)
	}
	program = append(program, bpf.RetConstant{Val: seccompError(unix.ENOSYS)})
	out, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assemble the seccomp filter: %w", err)
	}
	return out, nil
}

// rules returns the filter for one table. They always end in a verdict.
func (a abi) rules(keepOwners bool) []bpf.Instruction {
	out := []bpf.Instruction{bpf.LoadAbsolute{Off: numberOffset, Size: 4}}
	if a.x32 {
		const bit = 0x40000000 // __X32_SYSCALL_BIT
		out = append(out, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: bit, SkipFalse: 1}, bpf.RetConstant{Val: seccompError(unix.ENOSYS)})
	}
	verdict := func(names string, v uint32) {
		for _, n := range a.numbers(names) {
			out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: n, SkipFalse: 1}, bpf.RetConstant{Val: v})
		}
	}
	// forbid denies a call whose argument meets one of the conditions.
	forbid := func(name string, arg uint32, conditions ...bpf.JumpIf) {
		for _, n := range a.numbers(name) {
			body := []bpf.Instruction{bpf.LoadAbsolute{Off: argOffset + 8*arg, Size: 4}}
			for _, c := range conditions {
				c.SkipFalse = 1
				body = append(body, c, bpf.RetConstant{Val: seccompError(unix.EPERM)})
			}
			body = append(body, bpf.RetConstant{Val: seccompAllow})
			out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: n, SkipFalse: uint8(len(body))})
			out = append(out, body...)
		}
	}
	verdict(deniedCalls, seccompError(unix.EPERM))
	if keepOwners {
		verdict(ownerCalls, seccompDone)
	}
	// The flags of clone3 are in memory, which a filter cannot read. C libraries
	// fall back to clone.
	verdict("clone3", seccompError(unix.ENOSYS))
	const newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	forbid("clone", 0, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespace})
	forbid("socket", 0, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_VSOCK})
	// Both put input into the terminal of the program that started sealer.
	forbid("ioctl", 1, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCLINUX})
	return append(out, bpf.RetConstant{Val: seccompAllow})
}
