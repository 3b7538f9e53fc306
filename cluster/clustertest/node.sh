#!/usr/bin/env bash
# The start of a test machine, as the first process of its namespaces: builds
# its file tree, and becomes systemd, or a process that only waits.
#
#   node.sh DIR RAM
#
# Its root is an overlay over this machine's root with the changes in RAM, as an
# overlay cannot have them on the file system below it; /var is DIR/var, as a
# container runtime cannot put overlays on an overlay.
# shellcheck disable=SC2154
set -euo pipefail
dir=$1 ram=$2
# shellcheck source=cluster/clustertest/lab.sh
. "$(dirname "$0")/lab.sh"
name=$(basename "$dir") root=$dir/root kind=$(cat "$dir/kind")
hierarchies=$(lab_hierarchies)

mount --make-rprivate /
mount -t overlay -o "lowerdir=/,upperdir=$ram/upper,workdir=$ram/work" overlay "$root"
hostname "$name"

# first boot: a machine on which neither a container runtime nor Kubernetes was
if [ ! -e "$dir/var/lib" ]; then
  mkdir -p "$dir/var"/{cache,lib/{dbus,dpkg,systemd},log,mail,spool,tmp}
  chmod 1777 "$dir/var/tmp"
  ln -s /run "$dir/var/run"
  ln -s /run/lock "$dir/var/lock"
  (
    cd "$root"
    rm -rf etc/kubernetes etc/containerd etc/cni etc/docker opt/cni opt/containerd usr/lib/cni usr/libexec/kubernetes usr/local/bin/* usr/local/sbin/* srv/* home/*
    rm -f usr/bin/{kubectl,kubeadm,kubelet,containerd*,ctr,crictl,docker*} usr/sbin/runc usr/bin/runc lib/systemd/system/containerd.service
    rm -rf etc/systemd/system/*.wants etc/machine-id etc/resolv.conf etc/ssh/ssh_host_* etc/fstab
    mkdir -p etc/systemd/{system,journald.conf.d} etc/ssh/sshd_config.d
    tr -d - < /proc/sys/kernel/random/uuid > etc/machine-id
    echo "$name" > etc/hostname
    printf '127.0.0.1 localhost\n%s %s\n' "$(cat "$dir/ip")" "$name" > etc/hosts
    printf 'nameserver %s.1\n' "$lab_net" > etc/resolv.conf
    : > etc/fstab
    install -m 600 "$dir/hostkey" etc/ssh/ssh_host_ed25519_key
    printf 'HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin prohibit-password\nUsePAM no\nUseDNS no\nMaxSessions 100\nMaxStartups 100\n' > etc/ssh/sshd_config.d/10-lab.conf
    printf '[Journal]\nStorage=volatile\nReadKMsg=no\n' > etc/systemd/journald.conf.d/10-lab.conf
    # what would reach for the machine below, or is of no use to a node
    for unit in systemd-{udevd,udev-trigger,udev-settle,modules-load,sysctl,remount-fs,logind,timesyncd,random-seed,binfmt,pstore,firstboot,sysusers,tmpfiles-setup-dev,update-utmp,update-utmp-runlevel}.service \
      systemd-udevd-{control,kernel}.socket systemd-ask-password-{console,wall}.path kmod-static-nodes.service console-getty.service getty.target tmp.mount dev-{hugepages,mqueue}.mount sys-{kernel-debug,kernel-tracing,kernel-config,fs-fuse-connections}.mount \
      proc-sys-fs-binfmt_misc.automount {apt-daily,apt-daily-upgrade,dpkg-db-backup,man-db,e2scrub_all,fstrim,logrotate,systemd-tmpfiles-clean}.timer; do
      ln -sfn /dev/null "etc/systemd/system/$unit"
    done
    cat > etc/systemd/system/node.target <<UNIT
[Unit]
Description=A test machine
Requires=basic.target
Wants=dbus.service ssh.service multi-user.target
After=basic.target
AllowIsolate=yes
UNIT
    ln -sfn node.target etc/systemd/system/default.target
  )
fi

mount --bind "$dir/var" "$root/var"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=700 tmpfs "$root/root"
mkdir -p "$root/run/"{lock,sshd,sysctl} "$root/root/.ssh"
cp "$(dirname "$dir")/../home/.ssh/id_ed25519.pub" "$root/root/.ssh/authorized_keys"
[ ! -d "$root/work" ] || mount -t tmpfs -o ro,size=4k tmpfs "$root/work" # the tests' own files

mount -t proc proc "$root/proc"
# These are the machine's, not the node's: what a node writes goes to a file.
for s in fs/file-max fs/nr_open vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/pid_max kernel/keys/root_maxkeys kernel/keys/root_maxbytes fs/inotify/max_user_instances fs/inotify/max_user_watches; do
  [ -e "/proc/sys/$s" ] || continue
  cat "/proc/sys/$s" > "$root/run/sysctl/${s//\//.}"
  mount --bind "$root/run/sysctl/${s//\//.}" "$root/proc/sys/$s"
done

mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
while read -r where options; do
  mkdir -p "$root/sys/fs/cgroup/$(basename "$where")"
  mount -t cgroup -o "$options" cgroup "$root/sys/fs/cgroup/$(basename "$where")"
done <<< "$hierarchies"

mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for d in null zero full random urandom tty kmsg fuse; do [ ! -e "/dev/$d" ] || cp -a "/dev/$d" "$root/dev/$d"; done
mkdir "$root/dev/"{pts,shm,mqueue}
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
[ "$kind" != plain ] || install "$LAB_BIN/pause" "$root/run/sysctl/pause"

cd "$root"
mkdir -p run/old
pivot_root . run/old
umount -l run/old
rmdir run/old
mount --make-rshared / # the kubelet's mounts are seen by containers
touch run/booted
# no node loads modules into the machine's kernel or sets its clock
keep="setpriv --bounding-set=-sys_module,-sys_time,-sys_boot --inh-caps=-sys_module,-sys_time,-sys_boot"
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ "$kind" = plain ]; then
  env -i PATH=$path $keep /usr/sbin/sshd
  exec env -i PATH=$path $keep /run/sysctl/pause
fi
exec env -i container=lab PATH=$path $keep /lib/systemd/systemd --show-status=false --log-target=journal
