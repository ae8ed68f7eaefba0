package web_test

import (
	"maps"
	"strings"

	"quantix/internal/fleet"
)

// two returns a case with several values. The value at the path at is wrong. how is both unless given.
func two(what, at, says string, s sent, how ...how) refusal {
	c := refusal{what: what, sent: s, at: at, says: says}
	if len(how) > 0 {
		c.how = how[0]
	}
	return c
}

func several(n int, v any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func (r *refusing) volume(name string) map[string]any {
	return map[string]any{"poolId": r.stored, "volume": name}
}

// ofDevices returns cases about drives, shared folders, media and host devices.
func (r *refusing) ofDevices() []refusal {
	const drive, device = "Choose one of cdrom2, cdrom3, cdrom4, floppy1, floppy2.", "Enter a device as the host's page lists it:"
	dev := func(name string) []any { return []any{map[string]any{"device": name}} }
	folder := func(tag string, of any) []any { return []any{map[string]any{"tag": tag, "folder": of}} }
	return []refusal{
		two("a disc without a pool", "spec.iso.poolId", "Choose a pool.", sent{"spec.iso": map[string]any{"volume": "installer.iso"}}),
		two("a disc that climbs", "spec.iso.volume", "Choose a volume of the pool", sent{"spec.iso": r.volume("../../etc/shadow")}),
		two("a disc that is none", "spec.iso.volume", `no volume "no-such.iso"`, sent{"spec.iso": r.volume("no-such.iso")}, edited),
		two("a disc that is a disk", "spec.iso.volume", "is not an ISO image", sent{"spec.iso": r.volume("debian-12.qcow2")}, edited),
		two("a drive without a slot", "spec.drives[0].slot", drive, sent{"spec.drives": []any{map[string]any{}}}),
		two("a drive in the slot of the first drive", "spec.drives[0].slot", drive, sent{"spec.drives": []any{map[string]any{"slot": "cdrom1"}}}),
		two("a drive with markup", "spec.drives[0].slot", drive, sent{"spec.drives": []any{map[string]any{"slot": "cdrom2'/>"}}}),
		two("a slot twice", "spec.drives[1]", "Second CD-ROM is there twice.", sent{"spec.drives": several(2, map[string]any{"slot": "cdrom2"})}),
		one("six drives", "spec.drives", several(6, map[string]any{"slot": "cdrom2"}), "at most 5 drives."),
		one("10,000 drives", "spec.drives", several(10_000, map[string]any{"slot": "cdrom2"}), "at most 5 drives."),
		two("a medium that climbs", "spec.drives[0].medium.volume", "Choose a volume of the pool", sent{"spec.drives": []any{map[string]any{"slot": "cdrom2", "medium": r.volume("../x.iso")}}}),
		two("a floppy that is a disc", "spec.drives[0].medium.volume", "is not a floppy", sent{"spec.drives": []any{map[string]any{"slot": "floppy1", "medium": r.volume("installer.iso")}}}, edited),

		two("a device by its device node", "spec.hostDevices[0].device", device, sent{"spec.hostDevices": dev("/dev/sda")}),
		two("a PCI address without a function", "spec.hostDevices[0].device", device, sent{"spec.hostDevices": dev("pci/0000:41:00")}),
		two("a device with markup", "spec.hostDevices[0].device", device, sent{"spec.hostDevices": dev("usb/046d:c52b'/>")}),
		two("a device like an option", "spec.hostDevices[0].device", device, sent{"spec.hostDevices": dev("-device")}),
		two("a USB port that is none", "spec.hostDevices[0].device", device, sent{"spec.hostDevices": dev("usb-port/1")}),
		two("a disk by a path", "spec.hostDevices[0].device", device, sent{"spec.hostDevices": dev("blk/../../sda")}),
		two("a mediated device by its id", "spec.hostDevices[0].device", device, sent{"spec.hostDevices": dev("mdev/" + fleet.NewID[string]())}),
		two("a device twice", "spec.hostDevices[1]", "usb/046d:c52b is there twice.", sent{"spec.hostDevices": several(2, map[string]any{"device": "usb/046d:c52b"})}),
		one("17 devices", "spec.hostDevices", several(17, map[string]any{"device": "usb/046d:c52b"}), "at most 16 host devices."),
		two("a device of a host that is none", "spec.hostDevices[0].hostId", "There is no such host.", sent{"spec.hostDevices": []any{map[string]any{"device": "usb/046d:c52b", "hostId": "-rf"}}}),
		two("a place without its host", "spec.hostDevices[0].device", "Choose the host that has the device.", sent{"spec.hostDevices": dev("pci/0000:41:00.0")}, created),
		two("a device of another host", "spec.hostDevices[0].device", "is asked of another host than host-2", sent{"hostId": r.other, "spec.hostDevices": []any{map[string]any{"device": "usb/046d:c52b", "hostId": r.host}}}, created),
		two("a device of another host, by an edit", "spec.hostDevices[0].device", "is asked of another host than host-1", sent{"spec.hostDevices": []any{map[string]any{"device": "usb/046d:c52b", "hostId": r.other}}}, edited),
		two("a device that the host has not", "spec.hostDevices[0].device", "host-2 has no device usb/046d:c52b", sent{"hostId": r.other, "spec.hostDevices": dev("usb/046d:c52b")}, created),
		two("a device that stays with its host", "spec.hostDevices[0].device", "the device has no IOMMU group", sent{"hostId": r.host, "spec.hostDevices": dev("pci/0000:42:00.0")}, created),
		two("a disk that its host uses", "spec.hostDevices[0].device", "it is mounted", sent{"hostId": r.host, "spec.hostDevices": dev("blk/ata-A")}, created),

		two("a folder without shared memory", "spec.memory.shared", "Shared folders need shared memory.", sent{"spec.shares": folder("src", r.volume("src"))}),
		two("a tag with a blank", "spec.shares[0].tag", "A tag has 1–36 letters", sent{"spec.shares": folder("a b", r.volume("src"))}),
		two("a tag with markup", "spec.shares[0].tag", "A tag has 1–36 letters", sent{"spec.shares": folder("a'/>", r.volume("src"))}),
		two("a tag like an option", "spec.shares[0].tag", "A tag has 1–36 letters", sent{"spec.shares": folder("-o", r.volume("src"))}),
		two("a folder outside its pool", "spec.shares[0].folder.volume", "Enter the name of a folder in the pool, not a path.", sent{"spec.shares": folder("src", r.volume("../../etc"))}),
		two("the pool as a folder", "spec.shares[0].folder.volume", "Enter the name of a folder in the pool, not a path.", sent{"spec.shares": folder("src", r.volume("."))}),
		two("a folder of no pool", "spec.shares[0].folder.poolId", "Choose the folder's pool.", sent{"spec.shares": folder("src", map[string]any{"volume": "src"})}),
		two("a tag twice", "spec.shares[1]", "src is there twice.", sent{"spec.shares": several(2, map[string]any{"tag": "src", "folder": r.volume("src")})}),
		one("nine folders", "spec.shares", several(9, map[string]any{"tag": "src", "folder": r.volume("src")}), "at most 8 shared folders."),

		two("a kernel without a pool", "spec.boot.kernel.poolId", "Choose a pool.", sent{"spec.boot.kernel": map[string]any{"volume": "vmlinuz"}}),
		two("a kernel that climbs", "spec.boot.kernel.volume", "Choose a volume of the pool", sent{"spec.boot.kernel": r.volume("../../boot/vmlinuz")}),
		two("a kernel that is a disk", "spec.boot.kernel.volume", "is not a plain file", sent{"spec.boot.kernel": r.volume("debian-12.qcow2")}, edited),
		two("a RAM disk alone", "spec.boot.kernel", "An initial RAM disk or command line needs a", sent{"spec.boot.initrd": r.volume("initrd")}),
		two("a command line alone", "spec.boot.kernel", "An initial RAM disk or command line needs a", sent{"spec.boot.cmdline": "quiet"}),
		one("a command line without end", "spec.boot.cmdline", strings.Repeat("a", 1001), "A command line is one line of at most 1000"),
	}
}

// ofContradictions returns cases with values that are valid alone but not together.
func (r *refusing) ofContradictions() []refusal {
	node := func(cpus string, mib int) map[string]any { return map[string]any{"cpus": cpus, "memoryMiB": mib} }
	return []refusal{
		two("secure boot with BIOS", "spec.security.secureBoot", "Secure Boot needs UEFI.", sent{"spec.firmware": "bios", "spec.security.secureBoot": true}),
		two("two boot orders alike", "spec.nics[0].bootOrder", "Boot order 1 is already used by disk 1.", sent{"spec.disks[0].bootOrder": 1, "spec.nics[0].bootOrder": 1}),
		two("the CD-ROM in a NIC's place", "spec.boot.cdrom", "Boot order 2 is already used by NIC 1.", sent{"spec.nics[0].bootOrder": 2, "spec.boot.cdrom": 2}),
		two("a drive in a disk's place", "spec.drives[0].bootOrder", "Boot order 3 is already used by disk 1.", sent{"spec.disks[0].bootOrder": 3, "spec.drives[0].slot": "cdrom2", "spec.drives[0].bootOrder": 3}),
		one("room for fewer vCPUs than there are", "spec.cpu.max", 1, "The maximum must be at least the VM's 2 vCPUs."),
		one("room for less memory than there is", "spec.memory.maxMiB", 512, "The maximum must be at least the VM's 1024 MiB."),
		one("sockets that make too many", "spec.cpu.sockets", 3, "Sockets × cores × threads is 3, and the VM has 2 vCPUs."),
		two("sockets that miss the most", "spec.cpu.sockets", "and the VM has 8 vCPUs.", sent{"spec.cpu.max": 8, "spec.cpu.cores": 2}),
		one("a feature twice", "spec.cpu.features", "+aes -aes", "aes is there twice."),
		one("huge pages of an odd size", "spec.memory.hugePageKiB", 3072, "A page size must be a power of 2:"),
		two("huge pages that no host has", "spec.memory.hugePageKiB", "host-1 has no huge pages of 1048576 KiB.", sent{"hostId": r.host, "spec.memory.hugePageKiB": 1 << 20}, created),
		two("huge pages that placement finds nowhere", "hostId", "no huge pages of 1048576 KiB", sent{"spec.memory.hugePageKiB": 1 << 20}, created),
		one("huge pages that its host has not", "spec.memory.hugePageKiB", 1<<20, "host-1 has no huge pages of 1048576 KiB.", edited),
		two("more huge pages than a host has", "spec.memory.hugePageKiB", "host-1 has 600 huge pages of 2048 KiB, and the VM needs 1024.", sent{"hostId": r.host, "spec.memoryMiB": 2048, "spec.memory.hugePageKiB": 2048}, created),
		one("more to use than there is", "spec.memory.balloonMiB", 2048, "The VM has 1024 MiB."),
		two("less to use without a balloon", "spec.memory.balloonMiB", "A memory minimum needs a balloon.", sent{"spec.memory.balloonMiB": 512, "spec.devices.balloon": "none"}),
		two("screens of a NIC that has one", "spec.display.heads", "Only a virtio or QXL graphics card can have several screens.", sent{"spec.display.heads": 2, "spec.display.video": "bochs"}),
		one("USB devices without SPICE", "spec.display.usbRedirection", 2, "USB redirection needs SPICE."),
		one("the action of no watchdog", "spec.devices.watchdogAction", "poweroff", "Choose a watchdog, or remove the watchdog action."),
		two("encrypted memory with BIOS", "spec.security.confidential", "Memory encryption needs UEFI.", sent{"spec.firmware": "bios", "spec.security.confidential": "sev"}),
		two("encrypted memory with secure boot", "spec.security.secureBoot", "libvirt has no firmware that supports both Secure Boot", sent{"spec.security.secureBoot": true, "spec.security.confidential": "sev"}),
		two("encrypted memory that is given back", "spec.memory.balloonMiB", "The balloon cannot reclaim encrypted memory.", sent{"spec.memory.balloonMiB": 512, "spec.security.confidential": "sev"}),
		two("encrypted memory with a balloon that tells", "spec.devices.balloon", "The guest cannot report free pages of encrypted memory.", sent{"spec.devices.balloon": "reporting", "spec.security.confidential": "sev"}),
		two("encrypted memory with a folder", "spec.shares", "Shared folders need memory that the host can read.", sent{"spec.shares": []any{map[string]any{"tag": "a", "folder": r.volume("a")}}, "spec.memory.shared": true, "spec.security.confidential": "sev"}),
		two("measured vCPUs that come later", "spec.cpu.max", "The launch measurement covers the vCPUs, so none can", sent{"spec.cpu.max": 4, "spec.security.confidential": "tdx"}),

		one("native I/O with a cache", "spec.disks[0].io", "native", "Native I/O needs the cache none or directsync."),
		two("a read-only SATA disk", "spec.disks[0].readOnly", "A SATA disk cannot be read-only.", sent{"spec.disks[0].bus": "sata", "spec.disks[0].readOnly": true}),
		one("a new disk that others have", "spec.disks[0].shareable", true, "A shared disk needs an existing volume."),
		two("what others have, only read", "spec.disks[0].readOnly", "A read-only disk cannot be shared with VMs that", sent{"spec.disks[0].existing": true, "spec.disks[0].shareable": true, "spec.disks[0].readOnly": true}),
		two("what others have, cached", "spec.disks[0].cache", "Hosts must not cache a shared disk:", sent{"spec.disks[0].existing": true, "spec.disks[0].shareable": true, "spec.disks[0].cache": "writeback"}),
		two("an encrypted disk that is there", "spec.disks[0].encryption", "Only a new disk can.", sent{"spec.disks[0].existing": true, "spec.disks[0].encryption": "luks"}),
		two("an encrypted disk from an image", "spec.disks[0].encryption", "An encrypted disk starts empty.", sent{"spec.disks[0].image": r.volume("debian-12.qcow2"), "spec.disks[0].encryption": "luks"}),
		two("operations in all and reads", "spec.disks[0].limits.totalIops", "Limit the total operations, or reads and writes", sent{"spec.disks[0].limits": sent{"totalIops": 9, "readIops": 5}}),
		two("throughput in all and writes", "spec.disks[0].limits.totalKiB", "Limit the total throughput, or reads and writes", sent{"spec.disks[0].limits": sent{"totalKiB": 9, "writeKiB": 5}}),
		one("a burst of no limit", "spec.disks[0].limits.burstIops", 5, "A burst must be above the limit of the total operations."),
		two("a burst below the limit", "spec.disks[0].limits.burstKiB", "A burst must be above the limit of the total throughput.", sent{"spec.disks[0].limits": sent{"totalKiB": 9, "burstKiB": 9}}),
		one("the length of no burst", "spec.disks[0].limits.burstSeconds", 5, "Enter a burst, or remove the burst length."),
		two("queues of an e1000e", "spec.nics[0].queues", "Only a virtio NIC can have several queues.", sent{"spec.nics[0].model": "e1000e", "spec.nics[0].queues": 4}),
		one("an inbound peak of no limit", "spec.nics[0].limits.inPeakKiB", 5, "A peak must be above the limit."),
		two("an outbound peak below the limit", "spec.nics[0].limits.outPeakKiB", "A peak must be above the limit.", sent{"spec.nics[0].limits": sent{"outKiB": 9, "outPeakKiB": 5}}),
		one("an inbound burst of no limit", "spec.nics[0].limits.inBurstKiB", 5, "Enter a limit, or remove the burst."),
		one("an outbound burst of no limit", "spec.nics[0].limits.outBurstKiB", 5, "Enter a limit, or remove the burst."),
		two("a limit that the kernel cannot keep", "spec.nics[0].limits.inKiB", "host-1 does not support this: inbound limit. The kernel lacks sch_sfq.",
			sent{"hostId": r.host, "spec.nics[0].limits": sent{"inKiB": 9}}, created),
		two("a limit that its kernel cannot keep", "spec.nics[0].limits.outKiB", "host-1 does not support this: outbound limit. The kernel lacks sch_sfq.",
			sent{"spec.nics[0].network": "default", "spec.nics[0].limits": sent{"outKiB": 9}}, edited),
		two("a limit of a running VM that its kernel cannot keep", "spec.nics[0].limits.outKiB", "does not support this: outbound limit.",
			sent{"spec.nics[0].network": "default", "spec.nics[0].limits": sent{"outKiB": 9}}, onlineVM),

		one("one node", "spec.numa", []any{node("0-1", 1024)}, "Define two or more NUMA nodes, or none."),
		one("65 nodes", "spec.numa", several(65, node("0", 1)), "at most 64 NUMA nodes."),
		two("a vCPU beyond all", "spec.numa[1].cpus", "The VM has no vCPU 2", sent{"spec.numa": []any{node("0", 512), node("1-2", 512)}}),
		two("a range that goes down", "spec.numa[1].cpus", "Enter vCPU numbers and ranges, such as 0-3,6.", sent{"spec.numa": []any{node("0", 512), node("1-0", 512)}}),
		two("a vCPU twice", "spec.numa[0].cpus", "vCPU 0 is there twice.", sent{"spec.numa": []any{node("0,0", 512), node("1", 512)}}),
		two("a vCPU in two nodes", "spec.numa[1].cpus", "vCPU 0 is already in node 0.", sent{"spec.numa": []any{node("0", 512), node("0-1", 512)}}),
		two("a vCPU in none", "spec.numa", "vCPU 2 is in no node.", sent{"spec.cpus": 3, "spec.numa": []any{node("0", 512), node("1", 512)}}),
		two("memory in no node", "spec.numa", "The nodes have 768 MiB, and the VM has 1024 MiB.", sent{"spec.numa": []any{node("0", 512), node("1", 256)}}),
		two("a node without memory", "spec.numa[1].memoryMiB", "A node needs at least 1 MiB of the", sent{"spec.numa": []any{node("0", 1024), node("1", 0)}}),
		two("a part of a page", "spec.numa[0].memoryMiB", "A node's memory must be a multiple of the huge page size of 2048 KiB.", sent{"spec.memory.hugePageKiB": 2048, "spec.numa": []any{node("0", 511), node("1", 513)}}),
		two("host nodes of a node that are none", "spec.numa[0].nodes", "Enter numbers and ranges, such as 0-1.", sent{"spec.numa": []any{map[string]any{"cpus": "0", "memoryMiB": 512, "nodes": "a'/>"}, node("1", 512)}}),
		two("nodes twice over", "spec.memory.nodes", "The VM's NUMA nodes already select host nodes.", sent{"spec.memory.nodes": "0", "spec.numa": []any{map[string]any{"cpus": "0", "memoryMiB": 512, "nodes": "0"}, node("1", 512)}}),
	}
}

// ofPolicies returns cases about placement rules and health checks.
func (r *refusing) ofPolicies() []refusal {
	rule := func(of, name string) map[string]any { return map[string]any{"of": of, "name": name} }
	health := func(kind string, more sent) []any {
		v := map[string]any{"kind": kind}
		maps.Copy(v, more)
		return []any{v}
	}
	const number = "Enter a whole number from"
	return []refusal{
		one("17 rules", "spec.rules", several(17, rule("vm", "db")), "at most 16 placement rules."),
		two("a rule of nothing", "spec.rules[0].of", "The kind of a rule must be vm, vmLabels, host or hostLabels.", sent{"spec.rules": []any{rule("pool", "x")}}),
		two("a rule without a name", "spec.rules[0].name", "Enter a name.", sent{"spec.rules": []any{rule("vm", "")}}),
		two("a rule of a strange VM", "spec.rules[0].name", "A name has 1–63", sent{"spec.rules": []any{rule("vm", "a;id")}}),
		two("a rule of a strange host", "spec.rules[0].name", "Enter the name of a host.", sent{"spec.rules": []any{rule("host", "-rf")}}),
		two("a rule of no labels", "spec.rules[0].name", "Enter labels such as tier=web, or tier alone for", sent{"spec.rules": []any{rule("vmLabels", " ")}}),
		two("a rule of labels with asterisks", "spec.rules[0].name", "write key=value, or the key alone.", sent{"spec.rules": []any{rule("hostLabels", "a=b*")}}),
		two("a rule twice", "spec.rules[1].name", "Rule 1 is the same.", sent{"spec.rules": several(2, rule("vm", "db"))}),
		two("a rule and its opposite", "spec.rules[1].name", "Rule 1 is the opposite.", sent{"spec.rules": []any{rule("vm", "db"), map[string]any{"of": "vm", "name": "db", "apart": true}}}),

		one("nine checks", "spec.health", several(9, map[string]any{"kind": "agent"}), "at most 8 health checks."),
		two("a check of nothing", "spec.health[0].kind", "Choose one of agent, tcp, http, exec, watchdog, screen.", sent{"spec.health": health("ping", nil)}),
		two("a check twice", "spec.health[1].kind", "Check 1 already checks the same.", sent{"spec.health": several(2, map[string]any{"kind": "agent"})}),
		two("a check without a port", "spec.health[0].port", "Enter a port from 1 to 65535.", sent{"spec.health": health("tcp", nil)}),
		two("a port beyond all", "spec.health[0].port", number, sent{"spec.health": health("tcp", sent{"port": 65536})}),
		two("a port of the agent", "spec.health[0].port", "Only TCP and web server checks have this field.", sent{"spec.health": health("agent", sent{"port": 1})}),
		two("a path of a port", "spec.health[0].path", "Only web server checks have this field.", sent{"spec.health": health("tcp", sent{"port": 1, "path": "/"})}),
		two("a path without its beginning", "spec.health[0].path", "A path begins with /", sent{"spec.health": health("http", sent{"path": "health"})}),
		two("a path with a line break", "spec.health[0].path", "A path begins with /", sent{"spec.health": health("http", sent{"path": "/ HTTP/1.1\r\nHost: x"})}),
		two("a status that is none", "spec.health[0].status", number, sent{"spec.health": health("http", sent{"status": 99})}),
		two("a program of a port", "spec.health[0].program", "Only program checks have this field.", sent{"spec.health": health("tcp", sent{"port": 1, "program": "/bin/true"})}),
		two("a program without a name", "spec.health[0].program", "Enter a program, such as /usr/bin/systemctl.", sent{"spec.health": health("exec", nil), "spec.policy.guestExec": true}),
		two("a program that nobody allows", "spec.health[0].kind", "does not allow programs to be run in its guest", sent{"spec.health": health("exec", sent{"program": "/bin/true"})}),
		two("an interval that is short", "spec.health[0].interval", number, sent{"spec.health": health("agent", sent{"interval": 1})}),
		two("an interval that is long", "spec.health[0].interval", number, sent{"spec.health": health("agent", sent{"interval": 3601})}),
		two("a wait that is long", "spec.health[0].timeout", number, sent{"spec.health": health("agent", sent{"timeout": 61})}),
		two("a wait beyond the interval", "spec.health[0].timeout", "The timeout must not exceed the interval of 10 s.", sent{"spec.health": health("agent", sent{"timeout": 11})}),
		two("a threshold below none", "spec.health[0].threshold", number, sent{"spec.health": health("agent", sent{"threshold": -1})}),
		two("a grace that is short", "spec.health[0].grace", number, sent{"spec.health": health("agent", sent{"grace": 1})}),
		two("an action that is none", "spec.health[0].action", "Choose one of restart, reset, or leave the field empty.", sent{"spec.health": health("agent", sent{"action": "rm -rf"})}),
		two("the agent without a channel", "spec.health[0].kind", "The VM has no channel for a guest agent.", sent{"spec.health": health("agent", nil), "spec.devices.guestAgent": "none"}),
		two("the watchdog that is none", "spec.health[0].kind", "The VM has no watchdog.", sent{"spec.health": health("watchdog", nil)}),
		two("the screen without a NIC", "spec.health[0].kind", "The VM has no graphics device and therefore no", sent{"spec.health": health("screen", nil), "spec.display.video": "none"}),
		two("a port without a NIC", "spec.health[0].kind", "The VM has no NIC to check.", sent{"spec.health": health("tcp", sent{"port": 22}), "spec.nics": []any{}}),
	}
}
