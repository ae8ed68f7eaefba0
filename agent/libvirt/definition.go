package libvirt

import (
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// agentChannel is where the guest's agent listens.
const agentChannel = "org.qemu.guest_agent.0"

// newDefinition is the part of a new domain that no spec speaks of; edit adds the rest.
func newDefinition(id fleet.VMID, arch string, k kind) *libvirtxml.Domain {
	port := uint(0)
	enabled := func(state string) *libvirtxml.DomainPMPolicy { return &libvirtxml.DomainPMPolicy{Enabled: state} }
	return &libvirtxml.Domain{
		Type: k.accelerator,
		UUID: string(id),
		OS: &libvirtxml.DomainOS{
			Type:        &libvirtxml.DomainOSType{Arch: arch, Machine: k.machine, Type: "hvm"},
			BootDevices: bootDevices(),
		},
		Features: &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}},
		CPU:      k.cpu(),
		Clock: &libvirtxml.DomainClock{Offset: "utc", Timer: []libvirtxml.DomainTimer{
			{Name: "rtc", TickPolicy: "catchup"}, {Name: "pit", TickPolicy: "delay"}, {Name: "hpet", Present: "no"},
		}},
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy", // shows as crashed, and can be started at once
		PM:         &libvirtxml.DomainPM{SuspendToMem: enabled("no"), SuspendToDisk: enabled("no")},
		Devices: &libvirtxml.DomainDeviceList{
			Disks: []libvirtxml.DomainDisk{newCDROM(k.machine)},
			Serials: []libvirtxml.DomainSerial{{
				Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
				Target: &libvirtxml.DomainSerialTarget{Port: &port},
			}},
			Consoles: []libvirtxml.DomainConsole{{
				Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
				Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: &port},
			}},
			Channels: []libvirtxml.DomainChannel{newAgentChannel()},
			Inputs:   []libvirtxml.DomainInput{newTablet()},
			// On a Unix socket that libvirt names, so that nothing listens on the network.
			Graphics: []libvirtxml.DomainGraphic{{VNC: &libvirtxml.DomainGraphicVNC{
				Listeners: []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{}}},
			}}},
			Videos:     []libvirtxml.DomainVideo{newVideo()},
			RNGs:       []libvirtxml.DomainRNG{newRNG()},
			MemBalloon: &libvirtxml.DomainMemBalloon{Model: "virtio", Stats: &libvirtxml.DomainMemBalloonStats{Period: 10}},
		},
	}
}

// newCDROM is the drive that every VM has, empty or not, so that a medium can be put in later.
func newCDROM(machine string) libvirtxml.DomainDisk {
	target := &libvirtxml.DomainDiskTarget{Dev: "sda", Bus: "sata"}
	if machine == "pc" {
		target = &libvirtxml.DomainDiskTarget{Dev: "hda", Bus: "ide"}
	}
	return libvirtxml.DomainDisk{
		Device: "cdrom", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Target: target, ReadOnly: &libvirtxml.DomainDiskReadOnly{}, Alias: &libvirtxml.DomainAlias{Name: aliasCDROM},
	}
}
