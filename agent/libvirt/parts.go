package libvirt

import (
	"cmp"
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// Small devices of which Quantix made at most one carry these aliases; others of their kind are somebody else's.
const (
	aliasSound    = "ua-quantix-sound"
	aliasTPM      = "ua-quantix-tpm"
	aliasWatchdog = "ua-quantix-watchdog"
	aliasVSOCK    = "ua-quantix-vsock"
)

// tpmDir is where libvirt keeps the state of guests' TPMs, each in a directory that the guest's UUID names.
const tpmDir = "/var/lib/libvirt/swtpm"

// part is how a field of a spec that stands in one place of a definition is written there, and read from there.
type part struct {
	field string
	write func(x *libvirtxml.Domain, s fleet.VMSpec)
	// read leaves the zero value where the definition is as a new one. odd is what no spec can say, in words; empty: the spec says it.
	read func(x *libvirtxml.Domain, s *fleet.VMSpec) (odd string)
}

// parts are all of them. A definition always has devices: see edit and definedOf.
var parts = []part{
	{"firstBoot", nil, readFirstBoot}, // its file is the host's: see editFirstBoot
	{"cpu.model", writeModel, readModel},
	{"cpu.max", func(x *libvirtxml.Domain, s fleet.VMSpec) { setCPUs(x, uint(cpusOf(x)), uint(s.CPU.Max)) }, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.CPU.Max = moreCPUs(x)
		return ""
	}},
	{"cpu.sockets", writeTopology, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		t := topologyOf(x)
		s.CPU.Sockets = t.Sockets
		if t.Dies > 1 || t.Clusters > 1 {
			return fmt.Sprintf("%d with %d dies and %d clusters", t.Sockets, max(t.Dies, 1), max(t.Clusters, 1))
		}
		return ""
	}},
	{"cpu.cores", writeTopology, func(x *libvirtxml.Domain, s *fleet.VMSpec) string { s.CPU.Cores = topologyOf(x).Cores; return "" }},
	{"cpu.threads", writeTopology, func(x *libvirtxml.Domain, s *fleet.VMSpec) string { s.CPU.Threads = topologyOf(x).Threads; return "" }},

	{"cpu.features", writeFeatures, func(x *libvirtxml.Domain, s *fleet.VMSpec) string { s.CPU.Features = featuresOf(x); return "" }},
	{"cpu.shares", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		t := copyOf(x.CPUTune)
		if t.Shares = nil; s.CPU.Shares != 0 {
			t.Shares = &libvirtxml.DomainCPUTuneShares{Value: uint(s.CPU.Shares)}
		}
		keepTune(x, t)
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if t := copyOf(x.CPUTune); t.Shares != nil {
			s.CPU.Shares = int(t.Shares.Value)
		}
		return ""
	}},
	{"cpu.limit", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		t := copyOf(x.CPUTune)
		if t.Period, t.Quota = nil, nil; s.CPU.Limit != 0 {
			t.Period, t.Quota = &libvirtxml.DomainCPUTunePeriod{Value: cpuPeriod}, &libvirtxml.DomainCPUTuneQuota{Value: int64(s.CPU.Limit) * cpuPeriod / 100}
		}
		keepTune(x, t)
	}, readLimit},
	{"cpu.pinned", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		if x.VCPU != nil {
			x.VCPU.CPUSet = s.CPU.Pinned
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if x.VCPU != nil {
			s.CPU.Pinned = x.VCPU.CPUSet
		}
		return ""
	}},

	{"memory.hugePageKiB", writeHugePages, readHugePages},
	{"memory.locked", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		b := backingOf(x)
		b.MemoryLocked = nil
		if s.Memory.Locked {
			b.MemoryLocked = &libvirtxml.DomainMemoryLocked{}
		}
		keepBacking(x, b)
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Memory.Locked = backingOf(x).MemoryLocked != nil
		return ""
	}},
	{"memory.shared", writeShared, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		b := backingOf(x)
		s.Memory.Shared = b.MemoryAccess != nil && b.MemoryAccess.Mode == "shared"
		return ""
	}},

	{"memory.maxMiB", writeMaxMemory, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Memory.MaxMiB = moreMemory(x)
		return ""
	}},

	{"memory.nodes", writeNodes, readNodes},
	{"numa", writeCells, readCells},

	{"boot.menu", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		if x.OS == nil {
			return
		}
		if x.OS.BootMenu = nil; s.Boot.Menu {
			x.OS.BootMenu = &libvirtxml.DomainBootMenu{Enable: "yes"}
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Boot.Menu = x.OS != nil && x.OS.BootMenu != nil && x.OS.BootMenu.Enable == "yes"
		return ""
	}},

	{"memory.balloonMiB", writeBalloonSize, readBalloonSize},
	{"boot.kernel", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		setOS(x, func(os *libvirtxml.DomainOS) { os.Kernel = fileIn(s.Boot.Kernel) })
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		setOS(x, func(os *libvirtxml.DomainOS) { s.Boot.Kernel = fileRef(os.Kernel) })
		return ""
	}},
	{"boot.initrd", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		setOS(x, func(os *libvirtxml.DomainOS) { os.Initrd = fileIn(s.Boot.Initrd) })
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		setOS(x, func(os *libvirtxml.DomainOS) { s.Boot.Initrd = fileRef(os.Initrd) })
		return ""
	}},
	{"boot.cmdline", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		setOS(x, func(os *libvirtxml.DomainOS) { os.Cmdline = s.Boot.Cmdline })
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		setOS(x, func(os *libvirtxml.DomainOS) { s.Boot.Cmdline = os.Cmdline })
		return ""
	}},
	{"display.spice", writeSpice, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Display.Spice = slices.ContainsFunc(x.Devices.Graphics, isSpice)
		return ""
	}},
	{"display.usbRedirection", writeRedirection, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, d := range x.Devices.RedirDevs {
			if isOurs(d.Alias, aliasRedir) {
				s.Display.USBRedirection++
			}
		}
		return ""
	}},
	{"devices.balloon", writeBalloon, readBalloon},
	{"devices.serials", writeSerials, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, d := range x.Devices.Serials {
			if isOurs(d.Alias, aliasSerial) {
				s.Devices.Serials++
			}
		}
		return ""
	}},
	{"devices.parallel", writeParallel, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Devices.Parallel = slices.ContainsFunc(x.Devices.Parallels, func(d libvirtxml.DomainParallel) bool { return aliasOf(d.Alias) == aliasParallel })
		return ""
	}},
	{"drives", writeDrives, readDrives},
	{"hostDevices", writeHostDevices, readHostDevices},
	{"shares", writeShares, readShares},

	{"boot.cdrom", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		if i := cdromOf(x); i >= 0 {
			x.Devices.Disks[i].Boot = bootAt(s.Boot.CDROM)
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if i := cdromOf(x); i >= 0 {
			s.Boot.CDROM = placeOfBoot(x.Devices.Disks[i].Boot)
		}
		return ""
	}},

	{"display.video", writeVideo, readVideo},
	{"display.heads", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		if v := x.Devices.Videos; len(v) > 0 && v[0].Model.Type != "none" {
			v[0].Model.Heads = uint(max(s.Display.Heads, 1))
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if v := x.Devices.Videos; len(v) > 0 && v[0].Model.Heads > 1 {
			s.Display.Heads = int(v[0].Model.Heads)
		}
		return ""
	}},
	{"display.keyboard", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		for _, g := range x.Devices.Graphics {
			if g.VNC != nil {
				g.VNC.Keymap = s.Display.Keyboard
			}
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, g := range x.Devices.Graphics {
			if g.VNC != nil {
				s.Display.Keyboard = g.VNC.Keymap
			}
		}
		return ""
	}},
	{"display.pointer", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		x.Devices.Inputs = slices.DeleteFunc(x.Devices.Inputs, isTablet)
		if s.Display.Pointer != "mouse" {
			x.Devices.Inputs = append(x.Devices.Inputs, newTablet())
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if !slices.ContainsFunc(x.Devices.Inputs, isTablet) {
			s.Display.Pointer = "mouse"
		}
		return ""
	}},
	{"display.sound", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		x.Devices.Sounds = slices.DeleteFunc(x.Devices.Sounds, func(d libvirtxml.DomainSound) bool { return aliasOf(d.Alias) == aliasSound })
		if s.Display.Sound != "" {
			x.Devices.Sounds = append(x.Devices.Sounds, libvirtxml.DomainSound{Model: s.Display.Sound, Alias: &libvirtxml.DomainAlias{Name: aliasSound}})
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, d := range x.Devices.Sounds {
			if aliasOf(d.Alias) == aliasSound {
				s.Display.Sound = d.Model
			}
		}
		return ""
	}},

	{"security.tpm", writeTPM, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, d := range x.Devices.TPMs {
			if aliasOf(d.Alias) != aliasTPM {
				continue
			}
			if d.Backend == nil || d.Backend.Emulator == nil {
				return "one that is not emulated"
			}
			s.Security.TPM = true
		}
		return ""
	}},

	{"security.secureBoot", writeSecureBoot, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Security.SecureBoot = secureBootOf(x)
		return ""
	}},

	{"security.confidential", writeConfidential, readConfidential},

	{"devices.watchdog", writeWatchdog, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Devices.Watchdog = watchdogOf(x).Model
		return ""
	}},
	{"devices.watchdogAction", writeWatchdog, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if action := watchdogOf(x).Action; action != "reset" {
			s.Devices.WatchdogAction = action
		}
		return ""
	}},
	{"devices.rngRate", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		if len(x.Devices.RNGs) == 0 && s.Devices.RNGRate != 0 {
			x.Devices.RNGs = append(x.Devices.RNGs, newRNG())
		}
		for i := range x.Devices.RNGs[:min(len(x.Devices.RNGs), 1)] {
			if x.Devices.RNGs[i].Rate = nil; s.Devices.RNGRate != 0 {
				x.Devices.RNGs[i].Rate = &libvirtxml.DomainRNGRate{Bytes: uint(s.Devices.RNGRate), Period: 1000}
			}
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if len(x.Devices.RNGs) > 0 && x.Devices.RNGs[0].Rate != nil {
			r := x.Devices.RNGs[0].Rate
			s.Devices.RNGRate = int(r.Bytes) * 1000 / int(cmp.Or(r.Period, 1000))
		}
		return ""
	}},
	{"devices.vsock", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		ours := x.Devices.VSock != nil && aliasOf(x.Devices.VSock.Alias) == aliasVSOCK
		switch {
		case s.Devices.VSOCK && x.Devices.VSock == nil:
			x.Devices.VSock = &libvirtxml.DomainVSock{Model: "virtio", CID: &libvirtxml.DomainVSockCID{Auto: "yes"}, Alias: &libvirtxml.DomainAlias{Name: aliasVSOCK}}
		case s.Devices.VSOCK && !ours:
			x.Devices.VSock.Alias = &libvirtxml.DomainAlias{Name: aliasVSOCK} // there can be one alone
		case !s.Devices.VSOCK && ours:
			x.Devices.VSock = nil
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Devices.VSOCK = x.Devices.VSock != nil && aliasOf(x.Devices.VSock.Alias) == aliasVSOCK
		return ""
	}},
	{"devices.guestAgent", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		switch has := slices.ContainsFunc(x.Devices.Channels, isAgentChannel); {
		case s.Devices.GuestAgent == "none":
			x.Devices.Channels = slices.DeleteFunc(x.Devices.Channels, isAgentChannel)
		case !has:
			x.Devices.Channels = append(x.Devices.Channels, newAgentChannel())
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if !slices.ContainsFunc(x.Devices.Channels, isAgentChannel) {
			s.Devices.GuestAgent = "none"
		}
		return ""
	}},
}

// readParts reads all of them into the spec. odd gets what it cannot say, by field; nil: nobody asks.
func readParts(x *libvirtxml.Domain, s *fleet.VMSpec, odd map[string]string) {
	for _, p := range parts {
		if words := p.read(x, s); words != "" && odd != nil {
			odd[p.field] = words
		}
	}
}

// defaultModel is what a spec without a model means, for a domain of that type.
func defaultModel(x *libvirtxml.Domain) string {
	if x.Type == "kvm" {
		return "host-model"
	}
	return "maximum"
}

func writeModel(x *libvirtxml.Domain, s fleet.VMSpec) {
	if x.CPU == nil {
		x.CPU = &libvirtxml.DomainCPU{}
	}
	c, model := x.CPU, cmp.Or(s.CPU.Model, defaultModel(x))
	c.Mode, c.Match, c.Check, c.Migratable, c.Vendor, c.Model = model, "", "", "", "", nil
	switch model {
	case "host-passthrough", "host-model", "maximum":
	default:
		c.Mode, c.Match, c.Model = "custom", "exact", &libvirtxml.DomainCPUModel{Value: model, Fallback: "forbid"}
	}
}

func readModel(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	switch {
	case x.CPU == nil || x.CPU.Mode == "" && x.CPU.Model == nil:
		return "QEMU's own default"
	case x.CPU.Model != nil && cmp.Or(x.CPU.Mode, "custom") == "custom":
		s.CPU.Model = x.CPU.Model.Value
	default:
		s.CPU.Model = x.CPU.Mode
	}
	return ""
}

// isDefaultModel reports whether a spec without a model may have become this one, here or on another host.
func isDefaultModel(x *libvirtxml.Domain, model string) bool {
	if x.Type == "kvm" {
		return model == "" || model == "host-model" || model == "host-passthrough"
	}
	return model == "" || model == "maximum" || model == "qemu64" // which libvirt writes where none is named
}

// hasModel reports whether a running guest has the model of the definition that is kept: libvirt writes out what a guest got.
func hasModel(live, kept fleet.VMSpec) bool {
	if kept.CPU.Model == "host-model" {
		return live.CPU.Model != "host-passthrough" && live.CPU.Model != "maximum"
	}
	return live.CPU.Model == kept.CPU.Model
}

func topologyOf(x *libvirtxml.Domain) libvirtxml.DomainCPUTopology {
	if x.CPU == nil || x.CPU.Topology == nil {
		return libvirtxml.DomainCPUTopology{}
	}
	return *x.CPU.Topology
}

func writeTopology(x *libvirtxml.Domain, s fleet.VMSpec) {
	if x.CPU == nil {
		x.CPU = &libvirtxml.DomainCPU{}
	}
	if x.CPU.Topology = nil; s.CPU.Sockets != 0 || s.CPU.Cores != 0 || s.CPU.Threads != 0 {
		x.CPU.Topology = &libvirtxml.DomainCPUTopology{Sockets: max(s.CPU.Sockets, 1), Cores: max(s.CPU.Cores, 1), Threads: max(s.CPU.Threads, 1)}
	}
}

func backingOf(x *libvirtxml.Domain) libvirtxml.DomainMemoryBacking {
	if x.MemoryBacking == nil {
		return libvirtxml.DomainMemoryBacking{}
	}
	return *x.MemoryBacking
}

func keepBacking(x *libvirtxml.Domain, b libvirtxml.DomainMemoryBacking) {
	if x.MemoryBacking = nil; b != (libvirtxml.DomainMemoryBacking{}) {
		x.MemoryBacking = &b
	}
}

func writeHugePages(x *libvirtxml.Domain, s fleet.VMSpec) {
	b := backingOf(x)
	if b.MemoryHugePages = nil; s.Memory.HugePageKiB != 0 {
		b.MemoryHugePages = &libvirtxml.DomainMemoryHugepages{Hugepages: []libvirtxml.DomainMemoryHugepage{{Size: uint(s.Memory.HugePageKiB), Unit: "KiB"}}}
	}
	keepBacking(x, b)
}

func readHugePages(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	h := backingOf(x).MemoryHugePages
	switch {
	case h == nil:
		return ""
	case len(h.Hugepages) == 0:
		return "of the host's usual size"
	case len(h.Hugepages) > 1 || h.Hugepages[0].Nodeset != "":
		return "of several sizes"
	}
	s.Memory.HugePageKiB = int(kibOf(h.Hugepages[0].Size, h.Hugepages[0].Unit))
	return ""
}

func writeShared(x *libvirtxml.Domain, s fleet.VMSpec) {
	b := backingOf(x)
	b.MemoryAccess = nil
	switch {
	case s.Memory.Shared:
		b.MemorySource, b.MemoryAccess = &libvirtxml.DomainMemorySource{Type: "memfd"}, &libvirtxml.DomainMemoryAccess{Mode: "shared"}
	case b.MemorySource != nil && b.MemorySource.Type == "memfd":
		b.MemorySource = nil
	}
	keepBacking(x, b)
}

func newVideo() libvirtxml.DomainVideo {
	return libvirtxml.DomainVideo{Model: libvirtxml.DomainVideoModel{Type: "vga", VRam: 16384, Heads: 1, Primary: "yes"}}
}

func writeVideo(x *libvirtxml.Domain, s fleet.VMSpec) {
	v := newVideo()
	switch s.Display.Video {
	case "":
	case "none":
		x.Devices.Videos = []libvirtxml.DomainVideo{{Model: libvirtxml.DomainVideoModel{Type: "none"}}}
		return
	default:
		v.Model = libvirtxml.DomainVideoModel{Type: s.Display.Video, Primary: "yes"}
	}
	v.Model.Heads = uint(max(s.Display.Heads, 1))
	rest := x.Devices.Videos[min(len(x.Devices.Videos), 1):]
	x.Devices.Videos = append([]libvirtxml.DomainVideo{v}, rest...)
}

func readVideo(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	switch v := x.Devices.Videos; {
	case len(v) == 0:
		s.Display.Video = "none"
	case v[0].Model.Type != "vga":
		s.Display.Video = v[0].Model.Type
	}
	return ""
}

func isTablet(d libvirtxml.DomainInput) bool { return d.Type == "tablet" }

func newTablet() libvirtxml.DomainInput { return libvirtxml.DomainInput{Type: "tablet", Bus: "usb"} }

func newRNG() libvirtxml.DomainRNG {
	return libvirtxml.DomainRNG{
		Model:   "virtio",
		Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
	}
}

func newAgentChannel() libvirtxml.DomainChannel {
	return libvirtxml.DomainChannel{
		Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}},
		Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: agentChannel}},
	}
}

// isAgentChannel reports whether the guest's agent listens there, whoever made it: libvirt speaks to one alone.
func isAgentChannel(c libvirtxml.DomainChannel) bool {
	return c.Target != nil && c.Target.VirtIO != nil && c.Target.VirtIO.Name == agentChannel
}

func writeTPM(x *libvirtxml.Domain, s fleet.VMSpec) {
	ours := func(d libvirtxml.DomainTPM) bool { return aliasOf(d.Alias) == aliasTPM }
	if s.Security.TPM && slices.ContainsFunc(x.Devices.TPMs, ours) {
		return // its state is kept by what it is
	}
	x.Devices.TPMs = slices.DeleteFunc(x.Devices.TPMs, ours)
	if s.Security.TPM {
		x.Devices.TPMs = append(x.Devices.TPMs, libvirtxml.DomainTPM{
			Model:   "tpm-crb",
			Backend: &libvirtxml.DomainTPMBackend{Emulator: &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}},
			Alias:   &libvirtxml.DomainAlias{Name: aliasTPM},
		})
	}
}

func watchdogOf(x *libvirtxml.Domain) libvirtxml.DomainWatchdog {
	for _, d := range x.Devices.Watchdogs {
		if aliasOf(d.Alias) == aliasWatchdog {
			return d
		}
	}
	return libvirtxml.DomainWatchdog{Action: "reset"}
}

func writeWatchdog(x *libvirtxml.Domain, s fleet.VMSpec) {
	x.Devices.Watchdogs = slices.DeleteFunc(x.Devices.Watchdogs, func(d libvirtxml.DomainWatchdog) bool { return aliasOf(d.Alias) == aliasWatchdog })
	if s.Devices.Watchdog != "" {
		x.Devices.Watchdogs = append(x.Devices.Watchdogs, libvirtxml.DomainWatchdog{
			Model: s.Devices.Watchdog, Action: cmp.Or(s.Devices.WatchdogAction, "reset"), Alias: &libvirtxml.DomainAlias{Name: aliasWatchdog},
		})
	}
}
