package sandbox

import (
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An abi is one table of system calls of the machine.
type abi struct {
	arch   uint32 // AUDIT_ARCH_*, as seccomp reports it
	column int    // of syscallNumbers
	x32    bool   // a second table has bit 30 of the number set
}

// abis returns the tables that programs of this machine may use; none for a
// processor whose columns are missing from syscallNumbers.
func abis() []abi {
	const x86, i386, arm, generic = 1, 2, 3, 4
	switch runtime.GOARCH {
	case "amd64":
		return []abi{{unix.AUDIT_ARCH_X86_64, x86, true}, {unix.AUDIT_ARCH_I386, i386, false}}
	case "arm64":
		return []abi{{unix.AUDIT_ARCH_AARCH64, generic, false}, {unix.AUDIT_ARCH_ARM, arm, false}}
	case "riscv64":
		return []abi{{unix.AUDIT_ARCH_RISCV64, generic, false}}
	}
	return nil
}

// numbers returns the numbers of system calls in a's table. Calls that the table
// lacks are left out.
func (a abi) numbers(names string) []uint32 {
	wanted := " " + strings.Join(strings.Fields(names), " ") + " "
	var out []uint32
	for line := range strings.Lines(syscallNumbers) {
		f := strings.Fields(line)
		if len(f) <= a.column || !strings.Contains(wanted, " "+f[0]+" ") {
			continue
		}
		if n, err := strconv.ParseUint(f[a.column], 10, 32); err == nil {
			out = append(out, uint32(n))
		}
	}
	return out
}

// deniedCalls are the system calls that change or inspect the machine, its
// kernel or other processes, and the newer interfaces with a history of faults.
// The list follows the container runtimes' default profile
// (moby/profiles, seccomp/default_linux.go) for a container without
// capabilities, and adds ptrace.
const deniedCalls = `
	acct bpf clock_adjtime clock_adjtime64 clock_settime clock_settime64 settimeofday stime
	create_module delete_module finit_module init_module get_kernel_syms query_module
	kexec_file_load kexec_load reboot swapoff swapon nfsservctl quotactl quotactl_fd
	add_key keyctl request_key
	fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree open_tree_attr pivot_root umount umount2
	setns unshare open_by_handle_at fanotify_init
	io_uring_enter io_uring_register io_uring_setup perf_event_open userfaultfd lookup_dcookie
	kcmp move_pages pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace
	ioperm iopl lsm_set_self_attr syslog vhangup _sysctl sysfs uselib ustat vm86 vm86old`

// ownerCalls change the owner of a file.
const ownerCalls = `chown fchown lchown fchownat chown32 fchown32 lchown32`

// syscallNumbers are the numbers on x86-64, i386, arm, and on arm64 and riscv64,
// which share a table: linux/arch/*/syscalls, as in golang.org/x/sys/unix.
const syscallNumbers = `
acct               163  51  51  89
add_key            248 286 309 217
bpf                321 357 386 280
chown               92 182 182   -
chown32              - 212 212   -
clock_adjtime      305 343 372 266
clock_adjtime64      - 405 405   -
clock_settime      227 264 262 112
clock_settime64      - 404 404   -
clone               56 120 120 220
clone3             435 435 435 435
create_module      174 127   -   -
delete_module      176 129 129 106
fanotify_init      300 338 367 262
fchown              93  95  95  55
fchown32             - 207 207   -
fchownat           260 298 325  54
finit_module       313 350 379 273
fsconfig           431 431 431 431
fsmount            432 432 432 432
fsopen             430 430 430 430
fspick             433 433 433 433
get_kernel_syms    177 130   -   -
init_module        175 128 128 105
io_uring_enter     426 426 426 426
io_uring_register  427 427 427 427
io_uring_setup     425 425 425 425
ioctl               16  54  54  29
ioperm             173 101   -   -
iopl               172 110   -   -
kcmp               312 349 378 272
kexec_file_load    320   - 401 294
kexec_load         246 283 347 104
keyctl             250 288 311 219
lchown              94  16  16   -
lchown32             - 198 198   -
lookup_dcookie     212 253 249  18
lsm_set_self_attr  460 460 460 460
mount              165  21  21  40
mount_setattr      442 442 442 442
move_mount         429 429 429 429
move_pages         279 317 344 239
nfsservctl         180 169 169  42
open_by_handle_at  304 342 371 265
open_tree          428 428 428 428
open_tree_attr     467 467 467 467
perf_event_open    298 336 364 241
pidfd_getfd        438 438 438 438
pivot_root         155 217 218  41
process_madvise    440 440 440 440
process_vm_readv   310 347 376 270
process_vm_writev  311 348 377 271
ptrace             101  26  26 117
query_module       178 167   -   -
quotactl           179 131 131  60
quotactl_fd        443 443 443 443
reboot             169  88  88 142
request_key        249 287 310 218
setns              308 346 375 268
settimeofday       164  79  79 170
socket              41 359 281 198
stime                -  25   -   -
swapoff            168 115 115 225
swapon             167  87  87 224
_sysctl            156 149 149   -
sysfs              139 135 135   -
syslog             103 103 103 116
umount               -  22   -   -
umount2            166  52  52  39
unshare            272 310 337  97
uselib             134  86  86   -
userfaultfd        323 374 388 282
ustat              136  62  62   -
vhangup            153 111 111  58
vm86                 - 166   -   -
vm86old              - 113   -   -
`
