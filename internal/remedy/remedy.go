// Package remedy finds the fix for errors and states of pools, hosts and VMs.
package remedy

import (
	"regexp"

	"quantix/internal/fleet"
)

// Packages names the packages that a host needs for a kind of pool.
type Packages struct {
	Program, Packages string // mount program and its packages; empty: the kernel suffices
	Driver            string // packages of libvirt's storage driver, if a separate package contains it
}

var poolNeeds = map[fleet.PoolKind]Packages{
	fleet.PoolNFS:     {Program: "mount.nfs", Packages: "nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, Red Hat)"},
	fleet.PoolGluster: {Program: "mount.glusterfs", Packages: "glusterfs-client (Debian, Ubuntu) or glusterfs-fuse (Fedora, Red Hat)"},
	fleet.PoolISCSIDirect: {
		Driver: "libvirt-daemon-driver-storage-iscsi-direct, and qemu-block-extra (Debian, Ubuntu) or qemu-block-iscsi (Fedora, Red Hat)",
	},
	fleet.PoolISCSI: {
		Program: "iscsiadm", Packages: "open-iscsi (Debian, Ubuntu) or iscsi-initiator-utils (Fedora, Red Hat)", Driver: "libvirt-daemon-driver-storage-iscsi",
	},
	fleet.PoolRBD:     {Driver: "libvirt-daemon-driver-storage-rbd, and qemu-block-extra (Debian, Ubuntu) or qemu-block-rbd (Fedora, Red Hat)"},
	fleet.PoolLogical: {Program: "lvm", Packages: "lvm2", Driver: "libvirt-daemon-driver-storage-logical"},
}

// PackagesForPool returns the packages that a host needs for pools of the kind.
func PackagesForPool(kind fleet.PoolKind) Packages { return poolNeeds[kind] }

// remedy is the fix for one cause, which a pattern recognizes in an error text.
type remedy struct {
	resource fleet.ResourceType // resource type; empty: any
	kind     fleet.PoolKind     // kind of pool; empty: any
	text     *regexp.Regexp
	fix      string
}

// remedies lists the known causes. The first match wins.
var remedies = func() (rows []remedy) {
	add := func(resource fleet.ResourceType, kind fleet.PoolKind, text, fix string) {
		rows = append(rows, remedy{resource, kind, regexp.MustCompile(`(?i)` + text), fix})
	}
	for _, t := range fleet.PoolTypes() {
		need := PackagesForPool(t.Kind)
		if need.Driver != "" {
			add(fleet.TypePool, t.Kind, `missing backend for pool type|has no \S+ driver|unknown (storage )?pool type`, "Install "+need.Driver+" on the host.")
		}
		if need.Program != "" {
			add(fleet.TypePool, t.Kind, regexp.QuoteMeta(need.Program)+`( is missing|\S* not found|: No such file)|cannot find '?`+regexp.QuoteMeta(need.Program)+
				`|you might need a /sbin/mount|unknown filesystem type|missing codepage or helper program`, "Install "+need.Packages+" on the host.")
		}
	}
	add(fleet.TypePool, "", `access denied by server`, "Allow the host's address in the server's export.")
	add(fleet.TypePool, "", `connection refused|no route to host|timed out|unreachable|failed to resolve|name or service not known`,
		"Check that the server runs, that its name resolves on the host, and that the host reaches it.")
	add(fleet.TypePool, "", `^stopped on the host`, "Start the pool on its page.")
	add(fleet.TypePool, "", `^not answering|does not answer`, "Check the storage and the host's network to it. The agent retries automatically.")
	add(fleet.TypePool, "", `^(full|nearly full)|storage is full|no space left`, "Delete volumes or snapshots that are not needed, move disks to another pool, or enlarge the storage.")
	add(fleet.TypePool, "", `read-only`, "Look for I/O errors in the host's log, and mount the file system read-write again.")
	add("", "", `no space left`, "Free space in the pool, or move disks to another pool.")
	add("", "", `cannot allocate memory|cannot set up guest memory`, "Free memory on the host: stop or migrate VMs, or give this VM less.")
	add("", "", `failed to initialize kvm|could not access kvm`, "Enable virtualization in the host's firmware, and load kvm_intel or kvm_amd.")
	add("", "", `network \S+ is not active`, "Start the network on the host.")
	add("", "", `dnsmasq\S* (not found|.*no such file)`, "Install dnsmasq-base (Debian, Ubuntu) or dnsmasq (Fedora, Red Hat) on the host.")
	return rows
}()

// ForError returns the fix for an object's error text, for a pool of the given kind; empty: unknown.
func ForError(resource fleet.ResourceType, kind fleet.PoolKind, text string) string {
	for _, r := range remedies {
		if (r.resource == "" || r.resource == resource) && (r.kind == "" || r.kind == kind) && r.text.MatchString(text) {
			return r.fix
		}
	}
	return ""
}

// ForPool returns the fix for the state of a pool of the kind on a host; empty: no problem, or unknown.
func ForPool(kind fleet.PoolKind, p fleet.PoolHost) string {
	text := p.Notice
	if p.Status != nil && p.Status.Error != "" {
		text += " " + p.Status.Error
	}
	if p.State != fleet.PoolActive && p.State != fleet.PoolInactive {
		text = p.State.DisplayName() + ": " + text
	}
	if p.Severity == fleet.SeverityOK || p.State == fleet.PoolUnknown || p.State == fleet.PoolPending {
		return ""
	}
	return ForError(fleet.TypePool, kind, text)
}

var hostRemedies = map[fleet.HostPhase]string{
	fleet.HostConflict: "Find out which machine is the right one, stop the other agent, and then clear the conflict on the host's page.",
	fleet.HostDegraded: "Check libvirtd on this host; the agent retries automatically. Running VMs may still run.",
	fleet.HostUnknown: "Check that the machine and its agent run (systemctl status quantix-agent), and that it reaches the portal. If its agent is lost, " +
		"choose Join again among the host's actions.",
	fleet.HostPending: "Start the agent on the host: systemctl enable --now quantix-agent",
}

// ForHost returns the fix for a host's phase; empty: no problem.
func ForHost(phase fleet.HostPhase) string { return hostRemedies[phase] }

// Drift is the fix for drift of VMs, and HostDrift that for drift of pools and networks.
const (
	Drift     = "Open each VM, and accept, reapply or ignore the drift."
	HostDrift = "Open the hosts of each object, and reapply, accept or ignore the drift."
)
