package libvirt

import (
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// agentChannel is where the guest's agent listens.
const agentChannel = "org.qemu.guest_agent.0"

// newDefinition is what a new domain begins as on that machine; edit adds the rest. The drive is there, empty or not, so that a medium can be put in later.
func newDefinition(id fleet.VMID, arch, machine string, k kind) *libvirtxml.Domain {
	port := uint(0)
	enabled := func(state string) *libvirtxml.DomainPMPolicy { return &libvirtxml.DomainPMPolicy{Enabled: state} }
	return &libvirtxml.Domain{
		Type: k.accelerator,
		UUID: string(id),
		OS: &libvirtxml.DomainOS{
			Type:        &libvirtxml.DomainOSType{Arch: arch, Machine: machine, Type: "hvm"},
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
			Disks: []libvirtxml.DomainDisk{newCDROM(machine)},
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
