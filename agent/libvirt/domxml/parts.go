package domxml

import (
	"cmp"
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// These aliases mark the small devices that Quantix adds, at most one of each kind. Quantix does not manage other
// devices of these kinds.
const (
	soundAlias    = "ua-quantix-sound"
	tpmAlias      = "ua-quantix-tpm"
	watchdogAlias = "ua-quantix-watchdog"
	vsockAlias    = "ua-quantix-vsock"
)

// TPMDir is the directory where libvirt stores the TPM state of guests, in a subdirectory named by the guest's UUID.
const TPMDir = "/var/lib/libvirt/swtpm"

// definitionField maps a field of the spec to one place in the libvirt definition.
type definitionField struct {
	field string
	write func(x *libvirtxml.Domain, s fleet.VMSpec)
	// read sets the spec's field from the definition. If the definition has the default setting of a new definition,
	// read leaves the field's zero value. odd describes a setting that no spec can express; otherwise odd is empty.
	read func(x *libvirtxml.Domain, s *fleet.VMSpec) (odd string)
}

// definitionFieldCodecs lists the fields of the spec that map to one place each. A definition always has a devices
// element: see Edit and ReadDefinedSpec.
var definitionFieldCodecs = []definitionField{
	{"firstBoot", nil, readFirstBoot}, // the host writes the first-boot file: see editFirstBoot
	{"cpu.model", writeCPUModel, readCPUModel},
	{"cpu.max", func(x *libvirtxml.Domain, s fleet.VMSpec) { setCPUs(x, uint(PluggedCPUs(x)), uint(s.CPU.Max)) }, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.CPU.Max = MaxHotPlugCPUs(x)
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

	{"cpu.features", writeCPUFeatures, func(x *libvirtxml.Domain, s *fleet.VMSpec) string { s.CPU.Features = cpuFeaturesOf(x); return "" }},
	{"cpu.shares", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		t := CopyOrZero(x.CPUTune)
		if t.Shares = nil; s.CPU.Shares != 0 {
			t.Shares = &libvirtxml.DomainCPUTuneShares{Value: uint(s.CPU.Shares)}
		}
		setCPUTune(x, t)
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if t := CopyOrZero(x.CPUTune); t.Shares != nil {
			s.CPU.Shares = int(t.Shares.Value)
		}
		return ""
	}},
	{"cpu.limit", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		t := CopyOrZero(x.CPUTune)
		if t.Period, t.Quota = nil, nil; s.CPU.Limit != 0 {
			t.Period, t.Quota = &libvirtxml.DomainCPUTunePeriod{Value: cpuPeriodMicroseconds}, &libvirtxml.DomainCPUTuneQuota{Value: int64(s.CPU.Limit) * cpuPeriodMicroseconds / 100}
		}
		setCPUTune(x, t)
	}, readCPULimit},
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
		b := memoryBackingOf(x)
		b.MemoryLocked = nil
		if s.Memory.Locked {
			b.MemoryLocked = &libvirtxml.DomainMemoryLocked{}
		}
		setMemoryBacking(x, b)
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Memory.Locked = memoryBackingOf(x).MemoryLocked != nil
		return ""
	}},
	{"memory.shared", writeSharedMemory, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		b := memoryBackingOf(x)
		s.Memory.Shared = b.MemoryAccess != nil && b.MemoryAccess.Mode == "shared"
		return ""
	}},

	{"memory.maxMiB", writeMaxMemory, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Memory.MaxMiB = MaxHotPlugMemory(x)
		return ""
	}},

	{"memory.nodes", writeHostNUMANodes, readHostNUMANodes},
	{"numa", writeNUMANodes, ReadNUMANodes},

	{"boot.machine", writeMachineType, readMachineType},
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

	{"memory.balloonMiB", writeBalloonSize, ReadBalloonSize},
	{"boot.kernel", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		updateOS(x, func(os *libvirtxml.DomainOS) { os.Kernel = mediumPath(s.Boot.Kernel) })
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		updateOS(x, func(os *libvirtxml.DomainOS) { s.Boot.Kernel = mediumOfPath(os.Kernel) })
		return ""
	}},
	{"boot.initrd", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		updateOS(x, func(os *libvirtxml.DomainOS) { os.Initrd = mediumPath(s.Boot.Initrd) })
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		updateOS(x, func(os *libvirtxml.DomainOS) { s.Boot.Initrd = mediumOfPath(os.Initrd) })
		return ""
	}},
	{"boot.cmdline", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		updateOS(x, func(os *libvirtxml.DomainOS) { os.Cmdline = s.Boot.Cmdline })
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		updateOS(x, func(os *libvirtxml.DomainOS) { s.Boot.Cmdline = os.Cmdline })
		return ""
	}},
	{"display.spice", writeSpice, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Display.Spice = slices.ContainsFunc(x.Devices.Graphics, isSpice)
		return ""
	}},
	{"display.usbRedirection", writeUSBRedirection, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, d := range x.Devices.RedirDevs {
			if HasAliasPrefix(d.Alias, redirAliasPrefix) {
				s.Display.USBRedirection++
			}
		}
		return ""
	}},
	{"devices.balloon", writeBalloon, readBalloon},
	{"devices.serials", writeSerials, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, d := range x.Devices.Serials {
			if HasAliasPrefix(d.Alias, serialAliasPrefix) {
				s.Devices.Serials++
			}
		}
		return ""
	}},
	{"devices.parallel", writeParallelPort, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Devices.Parallel = slices.ContainsFunc(x.Devices.Parallels, func(d libvirtxml.DomainParallel) bool { return AliasOf(d.Alias) == parallelAlias })
		return ""
	}},
	{"drives", writeDrives, readDrives},
	{"hostDevices", writeHostDevices, readHostDevices},
	{"shares", writeSharedFolders, readSharedFolders},

	{"boot.cdrom", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		if i := CDROMIndex(x); i >= 0 {
			x.Devices.Disks[i].Boot = bootElement(s.Boot.CDROM)
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		if i := CDROMIndex(x); i >= 0 {
			s.Boot.CDROM = bootNumberOf(x.Devices.Disks[i].Boot)
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
		x.Devices.Sounds = slices.DeleteFunc(x.Devices.Sounds, func(d libvirtxml.DomainSound) bool { return AliasOf(d.Alias) == soundAlias })
		if s.Display.Sound != "" {
			x.Devices.Sounds = append(x.Devices.Sounds, libvirtxml.DomainSound{Model: s.Display.Sound, Alias: &libvirtxml.DomainAlias{Name: soundAlias}})
		}
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, d := range x.Devices.Sounds {
			if AliasOf(d.Alias) == soundAlias {
				s.Display.Sound = d.Model
			}
		}
		return ""
	}},

	{"security.tpm", writeTPM, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		for _, d := range x.Devices.TPMs {
			if AliasOf(d.Alias) != tpmAlias {
				continue
			}
			if d.Backend == nil || d.Backend.Emulator == nil {
				return "a TPM that is not emulated"
			}
			s.Security.TPM = true
		}
		return ""
	}},

	{"security.secureBoot", writeSecureBoot, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Security.SecureBoot = HasSecureBoot(x)
		return ""
	}},

	{"security.confidential", writeMemoryEncryption, readMemoryEncryption},

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
	{"devices.vsock", writeVSOCK, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		s.Devices.VSOCK = isManagedVSOCK(x.Devices.VSock)
		return ""
	}},
	{"devices.guestAgent", func(x *libvirtxml.Domain, s fleet.VMSpec) {
		switch has := slices.ContainsFunc(x.Devices.Channels, isAgentChannel); {
		case s.Devices.GuestAgent != "":
			x.Devices.Channels = slices.DeleteFunc(x.Devices.Channels, isAgentChannel)
		case !has:
			x.Devices.Channels = append(x.Devices.Channels, newAgentChannel())
		}
		writeVSOCK(x, s)
	}, func(x *libvirtxml.Domain, s *fleet.VMSpec) string {
		switch {
		case slices.ContainsFunc(x.Devices.Channels, isAgentChannel):
		case hasAgentVSOCK(x):
			s.Devices.GuestAgent = fleet.AgentOnVSOCK
		default:
			s.Devices.GuestAgent = "none"
		}
		return ""
	}},
}
