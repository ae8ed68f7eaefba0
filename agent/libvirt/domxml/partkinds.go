package domxml

import (
	"cmp"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// readDefinitionFields reads all fields of definitionFieldCodecs into the spec. For each field with a setting that no
// spec can express, it adds a description to odd; a nil odd discards the descriptions.
func readDefinitionFields(x *libvirtxml.Domain, s *fleet.VMSpec, odd map[string]string) {
	for _, p := range definitionFieldCodecs {
		if unsupported := p.read(x, s); unsupported != "" && odd != nil {
			odd[p.field] = unsupported
		}
	}
}

// defaultCPUModel returns the CPU model of a spec without one, for the domain's type.
func defaultCPUModel(x *libvirtxml.Domain) string {
	if x.Type == "kvm" {
		return "host-model"
	}
	return "maximum"
}

func writeCPUModel(x *libvirtxml.Domain, s fleet.VMSpec) {
	if x.CPU == nil {
		x.CPU = &libvirtxml.DomainCPU{}
	}
	c, model := x.CPU, cmp.Or(s.CPU.Model, defaultCPUModel(x))
	c.Mode, c.Match, c.Check, c.Migratable, c.Vendor, c.Model = model, "", "", "", "", nil
	switch model {
	case "host-passthrough", "host-model", "maximum":
	default:
		c.Mode, c.Match, c.Model = "custom", "exact", &libvirtxml.DomainCPUModel{Value: model, Fallback: "forbid"}
	}
}

func readCPUModel(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	switch {
	case x.CPU == nil || x.CPU.Mode == "" && x.CPU.Model == nil:
		return "QEMU's default"
	case x.CPU.Model != nil && cmp.Or(x.CPU.Mode, "custom") == "custom":
		s.CPU.Model = x.CPU.Model.Value
	default:
		s.CPU.Model = x.CPU.Mode
	}
	return ""
}

// isDefaultCPUModel reports whether a spec without a CPU model could result in this CPU model on any host.
func isDefaultCPUModel(x *libvirtxml.Domain, model string) bool {
	if x.Type == "kvm" {
		return model == "" || model == "host-model" || model == "host-passthrough"
	}
	return model == "" || model == "maximum" || model == "qemu64" // libvirt writes qemu64 if the definition names no model
}

// topologyOf returns the domain's CPU topology; zero if it has none.
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

// memoryBackingOf returns the domain's memory backing; zero if it has none.
func memoryBackingOf(x *libvirtxml.Domain) libvirtxml.DomainMemoryBacking {
	if x.MemoryBacking == nil {
		return libvirtxml.DomainMemoryBacking{}
	}
	return *x.MemoryBacking
}

// setMemoryBacking sets the domain's memory backing, and removes the element if it would be empty.
func setMemoryBacking(x *libvirtxml.Domain, b libvirtxml.DomainMemoryBacking) {
	if x.MemoryBacking = nil; b != (libvirtxml.DomainMemoryBacking{}) {
		x.MemoryBacking = &b
	}
}

func writeHugePages(x *libvirtxml.Domain, s fleet.VMSpec) {
	b := memoryBackingOf(x)
	if b.MemoryHugePages = nil; s.Memory.HugePageKiB != 0 {
		b.MemoryHugePages = &libvirtxml.DomainMemoryHugepages{Hugepages: []libvirtxml.DomainMemoryHugepage{{Size: uint(s.Memory.HugePageKiB), Unit: "KiB"}}}
	}
	setMemoryBacking(x, b)
}

func readHugePages(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	h := memoryBackingOf(x).MemoryHugePages
	switch {
	case h == nil:
		return ""
	case len(h.Hugepages) == 0:
		return "huge pages of the host's default size"
	case len(h.Hugepages) > 1 || h.Hugepages[0].Nodeset != "":
		return "huge pages of several sizes"
	}
	s.Memory.HugePageKiB = int(ToKiB(h.Hugepages[0].Size, h.Hugepages[0].Unit))
	return ""
}

// writeSharedMemory makes the memory shareable, which virtiofs requires.
func writeSharedMemory(x *libvirtxml.Domain, s fleet.VMSpec) {
	b := memoryBackingOf(x)
	b.MemoryAccess = nil
	switch {
	case s.Memory.Shared:
		b.MemorySource, b.MemoryAccess = &libvirtxml.DomainMemorySource{Type: "memfd"}, &libvirtxml.DomainMemoryAccess{Mode: "shared"}
	case b.MemorySource != nil && b.MemorySource.Type == "memfd":
		b.MemorySource = nil
	}
	setMemoryBacking(x, b)
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

// readVideo reads the first video device. Standard VGA is the default.
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

// isAgentChannel reports whether the channel is the guest agent's channel. Somebody else may have added the channel,
// but libvirt uses only one.
func isAgentChannel(c libvirtxml.DomainChannel) bool {
	return c.Target != nil && c.Target.VirtIO != nil && c.Target.VirtIO.Name == agentChannel
}

// writeTPM adds or removes Quantix's TPM.
func writeTPM(x *libvirtxml.Domain, s fleet.VMSpec) {
	ours := func(d libvirtxml.DomainTPM) bool { return AliasOf(d.Alias) == tpmAlias }
	if s.Security.TPM && slices.ContainsFunc(x.Devices.TPMs, ours) {
		return // the device's removal would delete the TPM's state
	}
	x.Devices.TPMs = slices.DeleteFunc(x.Devices.TPMs, ours)
	if s.Security.TPM {
		x.Devices.TPMs = append(x.Devices.TPMs, libvirtxml.DomainTPM{
			Model:   "tpm-crb",
			Backend: &libvirtxml.DomainTPMBackend{Emulator: &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}},
			Alias:   &libvirtxml.DomainAlias{Name: tpmAlias},
		})
	}
}

// watchdogOf returns Quantix's watchdog. If the domain has none, it returns an empty watchdog with the default action.
func watchdogOf(x *libvirtxml.Domain) libvirtxml.DomainWatchdog {
	for _, d := range x.Devices.Watchdogs {
		if AliasOf(d.Alias) == watchdogAlias {
			return d
		}
	}
	return libvirtxml.DomainWatchdog{Action: "reset"}
}

// writeWatchdog adds, changes or removes Quantix's watchdog.
func writeWatchdog(x *libvirtxml.Domain, s fleet.VMSpec) {
	x.Devices.Watchdogs = slices.DeleteFunc(x.Devices.Watchdogs, func(d libvirtxml.DomainWatchdog) bool { return AliasOf(d.Alias) == watchdogAlias })
	if s.Devices.Watchdog != "" {
		x.Devices.Watchdogs = append(x.Devices.Watchdogs, libvirtxml.DomainWatchdog{
			Model: s.Devices.Watchdog, Action: cmp.Or(s.Devices.WatchdogAction, "reset"), Alias: &libvirtxml.DomainAlias{Name: watchdogAlias},
		})
	}
}
