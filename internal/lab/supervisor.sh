# pid 1 of one lab host: bash -c SCRIPT supervisor DIR NAME CGROUP NETWORK, in new mount, UTS and PID namespaces.
#
# It mounts the host's own directories, says "ready" and then reads standard input until its end, which comes when Stop
# closes it or when the program that holds it dies, however it dies. Then it ends the networks, which live in the
# machine's network namespace, and exits: the kernel kills every process of the PID namespace with it. bash reaps
# whatever is orphaned while it reads.
set -eu
dir=$1 name=$2 cgroup=$3 network=$4

mount --make-rprivate /
mount -t proc proc /proc
echo "$name" >/proc/sys/kernel/hostname

# sysfs shows the devices of the network namespace in which it was mounted.
if [ "$network" = own ]; then
	mkdir -p "$dir/cgroups"
	mount --rbind /sys/fs/cgroup "$dir/cgroups"
	umount -R -l /sys
	mount -t sysfs sysfs /sys
	mount --rbind "$dir/cgroups" /sys/fs/cgroup
	umount -R -l "$dir/cgroups"
	mkdir -p "$dir/netrun"
	: >>/run/xtables.lock
	: >>"$dir/netrun/xtables.lock"
	mount --bind "$dir/netrun/xtables.lock" /run/xtables.lock
fi

bind() {
	mkdir -p "$2"
	mount --bind "$1" "$2"
}
bind "$dir/etc" /etc/libvirt
bind "$dir/lib" /var/lib/libvirt
bind "$dir/cache" /var/cache/libvirt
bind "$dir/log" /var/log/libvirt
bind "$dir/run" /run/libvirt
# Open vSwitch is found by this path: a host's own, if it runs one, and never the machine's.
if [ "$network" = own ]; then
	mkdir -p "$dir/ovs"
	bind "$dir/ovs" /run/openvswitch
fi
mount --bind "$dir/hosts" /etc/hosts
if [ -e /etc/machine-id ]; then mount --bind "$dir/machine-id" /etc/machine-id; fi
if [ -d /var/log/swtpm ]; then
	mkdir -p "$dir/log/swtpm/libvirt/qemu"
	mount --bind "$dir/log/swtpm" /var/log/swtpm
fi
# The machine's systemd must not hear of a lab host's guests: it knows their processes by other numbers.
if [ -d /run/dbus ]; then mount --bind "$dir/no-dbus" /run/dbus; fi
# A lab host has no KVM. Where libvirt can open a /dev/kvm that QEMU cannot use it asks QEMU again, for seconds, at each
# look-up; read-only, not even root can open this one.
if [ -e /dev/kvm ]; then
	mount --bind "$dir/no-kvm" /dev/kvm
	mount -o remount,bind,ro /dev/kvm
fi

# Each host sees a branch of every cgroup hierarchy as the whole of it; else two hosts' guests of one name would share
# a cgroup. Where no branch can be made the host goes without cgroups.
hierarchies() {
	while read -r _ at kind _; do
		case $kind in cgroup | cgroup2) echo "$at" ;; esac
	done </proc/mounts
}
enter_branch() {
	mkdir -p "$1/$cgroup" || return 1
	if [ -e "$1/cpuset.cpus" ] && [ ! -e "$1/cgroup.controllers" ]; then
		cat "$1/cpuset.cpus" >"$1/$cgroup/cpuset.cpus" || return 1
		cat "$1/cpuset.mems" >"$1/$cgroup/cpuset.mems" || return 1
	fi
	if [ -e "$1/cgroup.controllers" ]; then
		for c in $(cat "$1/cgroup.controllers"); do echo "+$c" >"$1/cgroup.subtree_control" || true; done
	fi
	echo 0 >"$1/$cgroup/cgroup.procs"
}
branched=true
for h in $(hierarchies); do enter_branch "$h" || branched=false; done
if ! $branched; then
	echo "this host cannot have cgroups of its own, so its libvirt works without them" >&2
	for h in $(hierarchies); do umount -l "$h" || true; done
fi
export -f hierarchies

# The root of a cgroup namespace is where its maker stands, hence the second step. exec keeps pid 1.
exec unshare --cgroup -- bash -c '
set -u
for h in $(hierarchies); do
	mount --bind "$h/$1" "$h"
	# cgroup2 gives controllers to children only where no process sits beside them.
	if [ -e "$h/cgroup.controllers" ]; then
		mkdir -p "$h/supervisor"
		echo 0 >"$h/supervisor/cgroup.procs"
		for c in $(cat "$h/cgroup.controllers"); do echo "+$c" >"$h/cgroup.subtree_control"; done
	fi
done
trap "" HUP INT TERM
echo ready
exec >/dev/null
while read -r _; do :; done
if [ -S /run/libvirt/libvirt-sock ]; then
	for net in $(timeout -k 1 3 virsh -q -c qemu:///system net-list --name); do
		timeout -k 1 3 virsh -q -c qemu:///system net-destroy "$net"
	done
fi
' supervisor "$cgroup"
