package libvirt

import (
	"context"
	"fmt"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// agentChannel is the name of the guest agent's virtio channel.
const agentChannel = "org.qemu.guest_agent.0"

// newDefinition returns the base definition of a new domain for the given machine type; edit adds the spec. The
// definition always has a CD-ROM drive, so that a medium can be inserted later.
func newDefinition(id fleet.VMID, arch, machine string, k acceleratorKind) *libvirtxml.Domain {
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

// baseDefinition returns the base definition of a VM without a domain on this host. It refuses a VM that this host
// cannot run.
func (a *applyRun) baseDefinition(ctx context.Context) (*libvirtxml.Domain, error) {
	caps := a.capabilityWatch.read(ctx, capabilityMaxAge, capabilityVMTimeout, a.readCapabilities)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !caps.known && caps.err != nil:
		return nil, fmt.Errorf("read the host's virtualization capabilities: %w", caps.err)
	case !caps.known:
		return nil, fleet.Errorf(fleet.Unavailable, "libvirt is still reading the host's virtualization capabilities. Try again in a minute.")
	case len(caps.value.accelerators) == 0:
		return nil, fleet.Errorf(fleet.Conflict, "libvirt finds no QEMU for %s guests on this host. Install qemu-system-x86 or qemu-kvm.", caps.value.arch)
	case a.in.VM.Spec.Firmware == fleet.UEFI && !slices.Contains(caps.value.firmware, fleet.UEFI):
		return nil, fleet.Errorf(fleet.Conflict, "The host has no UEFI firmware for guests. Install ovmf (edk2-ovmf), or choose BIOS.")
	}
	best, machine := caps.value.accelerators[0], machineTypeOf(a.in.VM.Spec)
	if !slices.Contains(best.machines, machine) {
		return nil, fleet.Errorf(fleet.Conflict, "QEMU on this host does not support the machine type %s. Choose another machine type.", machine)
	}
	return newDefinition(a.in.VM.ID, caps.value.arch, machine, best), nil
}

// defineDomain writes the definition to libvirt and drops the cached one.
func (a *applyRun) defineDomain(ctx context.Context, x *libvirtxml.Domain) error {
	text, err := definitionText(x)
	if err != nil {
		return err
	}
	return a.c.do(ctx, func(l *golibvirt.Libvirt) error {
		ref, err := l.DomainDefineXML(text)
		if err == nil {
			a.domains.invalidate(ref.UUID)
		}
		return err
	})
}
