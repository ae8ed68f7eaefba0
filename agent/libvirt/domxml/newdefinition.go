package domxml

import (
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// AcceleratorKind is one accelerator that guests can run with.
type AcceleratorKind struct {
	Accelerator string   // "kvm" or "qemu"
	Machines    []string // the entries of machines that QEMU supports
	CPUModes    []string
}

// defaultCPU returns the default CPU of guests: the host's model with KVM, otherwise all features that emulation
// offers.
func (k AcceleratorKind) defaultCPU() *libvirtxml.DomainCPU {
	modes := []string{"host-model", "host-passthrough"}
	if k.Accelerator != "kvm" {
		modes = []string{"maximum"}
	}
	for _, m := range modes {
		if slices.Contains(k.CPUModes, m) {
			return &libvirtxml.DomainCPU{Mode: m}
		}
	}
	return nil
}

// agentChannel is the name of the guest agent's virtio channel.
const agentChannel = "org.qemu.guest_agent.0"

// NewDefinition returns the base definition of a new domain for the given machine type; edit adds the spec. The
// definition always has a CD-ROM drive, so that a medium can be inserted later.
func NewDefinition(id fleet.VMID, arch, machine string, k AcceleratorKind) *libvirtxml.Domain {
	port := uint(0)
	enabled := func(state string) *libvirtxml.DomainPMPolicy { return &libvirtxml.DomainPMPolicy{Enabled: state} }
	return &libvirtxml.Domain{
		Type: k.Accelerator,
		UUID: string(id),
		OS: &libvirtxml.DomainOS{
			Type:        &libvirtxml.DomainOSType{Arch: arch, Machine: machine, Type: "hvm"},
			BootDevices: bootDevices(),
		},
		Features: &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}},
		CPU:      k.defaultCPU(),
		Clock: &libvirtxml.DomainClock{Offset: "utc", Timer: []libvirtxml.DomainTimer{
			{Name: "rtc", TickPolicy: "catchup"}, {Name: "pit", TickPolicy: "delay"}, {Name: "hpet", Present: "no"},
		}},
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy", // the VM shows as crashed and can be started at once
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
			// libvirt chooses the path of the Unix socket. VNC does not listen on the network.
			Graphics: []libvirtxml.DomainGraphic{{VNC: &libvirtxml.DomainGraphicVNC{
				Listeners: []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{}}},
			}}},
			Videos:     []libvirtxml.DomainVideo{newVideo()},
			RNGs:       []libvirtxml.DomainRNG{newRNG()},
			MemBalloon: &libvirtxml.DomainMemBalloon{Model: "virtio", Stats: &libvirtxml.DomainMemBalloonStats{Period: 10}},
		},
	}
}
