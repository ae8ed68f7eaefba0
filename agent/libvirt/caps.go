package libvirt

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

const (
	capsAge = time.Hour
	// The first question makes libvirtd start each QEMU it knows and ask that in turn, which takes seconds.
	capsPatience = 5 * time.Second
	capsForVM    = time.Minute
)

// capabilities is what guests this host can run.
type capabilities struct {
	arch         string
	kinds        []kind // best first
	firmware     []fleet.Firmware
	secureBoot   bool              // one of them
	spice        bool              // QEMU can
	version      uint64            // libvirt's: 9001000 is 9.1
	confidential map[string]string // why it cannot encrypt guests' memory, by the kind of it; of a kind that is not here, it can
	models       []string          // named CPU models that the best kind of its guests can have
	pools        []string          // libvirt's types of pools that it has no driver for
	bandwidth    []fleet.VMGap     // limits of NICs that the kernel cannot keep
}

// kind is one way to run guests.
type kind struct {
	accelerator string   // "kvm" or "qemu"
	machines    []string // of machines, those that QEMU has
	cpuModes    []string
}

// abilities is what Snapshot tells of the capabilities; empty until libvirtd has found them out.
func (b *Backend) abilities(ctx context.Context) fleet.Inventory {
	var inv fleet.Inventory
	s := b.caps.read(ctx, capsAge, capsPatience, b.readCapabilities)
	for _, k := range s.value.kinds {
		inv.Accelerators = append(inv.Accelerators, k.accelerator)
	}
	inv.Firmwares, inv.CPUModels = s.value.firmware, s.value.models
	inv.PoolGaps = poolGaps(s.value.pools, exec.LookPath)
	inv.VMGaps = vmGaps(exec.LookPath, os.Stat)
	if s.known && !s.value.secureBoot {
		inv.VMGaps = append(inv.VMGaps, fleet.VMGap{Field: "security.secureBoot", Why: "libvirt finds no firmware that boots securely. Install ovmf (edk2-ovmf)."})
	}
	if s.known {
		inv.VMGaps = append(inv.VMGaps, s.value.gaps()...)
	}
	return inv
}

// gaps are the parts of a VM for which libvirt, QEMU or the kernel lack something.
func (c capabilities) gaps() (gaps []fleet.VMGap) {
	gaps = append(gaps, c.bandwidth...)
	if !c.spice {
		for _, f := range []string{"display.spice", "display.usbRedirection"} {
			gaps = append(gaps, fleet.VMGap{Field: f, Why: "QEMU has no SPICE here. Install qemu-system-modules-spice (qemu-spice)."})
		}
	}
	for _, k := range fleet.ConfidentialKinds[1:] {
		if why := c.confidential[k.Value]; why != "" {
			gaps = append(gaps, fleet.VMGap{Field: "security.confidential", Value: k.Value, Why: why})
		}
	}
	if len(c.kinds) > 0 && !slices.Contains(c.kinds[0].machines, fleet.MachinePC) {
		gaps = append(gaps, fleet.VMGap{Field: "boot.machine", Value: fleet.MachinePC, Why: "QEMU has no such machine here. Choose q35."})
	}
	if c.version < 9_001_000 {
		gaps = append(gaps, fleet.VMGap{Field: "devices.watchdog", Value: "itco", Why: "It takes libvirt 9.1. Choose another."})
	}
	if c.version < 11_005_000 {
		gaps = append(gaps, fleet.VMGap{Field: "disks.bus", Value: "nvme", Why: "It takes libvirt 11.5. Choose another."})
	}
	return gaps
}

// vmGaps are the parts of a VM that the host lacks something for.
func vmGaps(look func(program string) (string, error), stat func(path string) (os.FileInfo, error)) (gaps []fleet.VMGap) {
	if _, err := look("swtpm"); err != nil {
		gaps = append(gaps, fleet.VMGap{Field: "security.tpm", Why: "swtpm is missing. Install swtpm and swtpm-tools."})
	}
	if _, err := stat("/dev/vhost-vsock"); err != nil {
		gaps = append(gaps, fleet.VMGap{Field: "devices.vsock", Why: "The kernel's vhost_vsock is not loaded. Run: modprobe vhost_vsock."})
	}
	if !slices.ContainsFunc([]string{"/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd"}, func(p string) bool { _, err := stat(p); return err == nil }) {
		gaps = append(gaps, fleet.VMGap{Field: "shares", Why: "virtiofsd is missing. Install virtiofsd."})
	}
	return gaps
}

func (b *Backend) readCapabilities() (capabilities, error) {
	c, err := dial(b.life, b.socket)
	if err != nil {
		return capabilities{}, err
	}
	defer c.hangUp()
	caps, err := call(b.life, c, askCapabilities)
	if err == nil {
		caps.bandwidth = bandwidthGaps(b.life, trafficControl)
	}
	return caps, err
}

func askCapabilities(l *golibvirt.Libvirt) (capabilities, error) {
	text, err := l.ConnectGetCapabilities()
	if err != nil {
		return capabilities{}, err
	}
	var host libvirtxml.Caps
	if err := host.Unmarshal(text); err != nil {
		return capabilities{}, err
	}
	caps := capabilities{arch: host.Host.CPU.Arch}
	if caps.version, err = l.ConnectGetLibVersion(); err != nil {
		return capabilities{}, err
	}
	if caps.pools, err = missingPools(l); err != nil {
		return capabilities{}, err
	}
	for _, accelerator := range accelerators(host, caps.arch) {
		k := kind{accelerator: accelerator}
		for _, machine := range machines {
			// libvirt answers with an error where it cannot run such guests.
			text, err := l.ConnectGetDomainCapabilities(nil, golibvirt.OptString{caps.arch}, golibvirt.OptString{machine}, golibvirt.OptString{accelerator}, 0)
			if err != nil && !answered(err) {
				return capabilities{}, err
			}
			var x libvirtxml.DomainCaps
			if err != nil || x.Unmarshal(text) != nil || x.Domain != accelerator {
				continue
			}
			if k.machines = append(k.machines, machine); k.cpuModes == nil {
				k.cpuModes = cpuModes(x)
			}
			if caps.firmware == nil {
				caps.firmware, caps.secureBoot, caps.spice = firmwares(x), secureFirmware(x), hasSpice(x)
				caps.confidential, caps.models = confidentialGaps(x, caps.version), cpuModels(x)
			}
		}
		if len(k.machines) > 0 {
			caps.kinds = append(caps.kinds, k)
		}
	}
	return caps, nil
}

// accelerators are what the host lists for guests of its own architecture, best first.
func accelerators(host libvirtxml.Caps, arch string) []string {
	var out []string
	for _, want := range []string{"kvm", "qemu"} {
		for _, g := range host.Guests {
			if g.Arch.Name == arch && slices.ContainsFunc(g.Arch.Domains, func(d libvirtxml.CapsGuestDomain) bool { return d.Type == want }) {
				out = append(out, want)
				break
			}
		}
	}
	return out
}

func cpuModes(x libvirtxml.DomainCaps) []string {
	var out []string
	if x.CPU == nil {
		return nil
	}
	for _, m := range x.CPU.Modes {
		if m.Supported == "yes" {
			out = append(out, m.Name)
		}
	}
	return out
}

// cpuModels are the named models of which libvirt says that a guest can have them here.
func cpuModels(x libvirtxml.DomainCaps) (out []string) {
	if x.CPU == nil {
		return nil
	}
	for _, mode := range x.CPU.Modes {
		for _, m := range mode.Models {
			if mode.Name == "custom" && m.Usable == "yes" {
				out = append(out, m.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func firmwares(x libvirtxml.DomainCaps) []fleet.Firmware {
	out := []fleet.Firmware{fleet.BIOS}
	if x.OS == nil {
		return out
	}
	for _, e := range x.OS.Enums {
		if e.Name == "firmware" && slices.Contains(e.Values, "efi") {
			out = append(out, fleet.UEFI)
		}
	}
	return out
}

// secureFirmware reports whether one of the firmwares boots securely.
func secureFirmware(x libvirtxml.DomainCaps) bool {
	return x.OS != nil && x.OS.Loader != nil && slices.ContainsFunc(x.OS.Loader.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "secure" && slices.Contains(e.Values, "yes")
	})
}

// cpu is the CPU that guests of this kind get: with KVM what the host has, else all that emulation offers.
func (k kind) cpu() *libvirtxml.DomainCPU {
	modes := []string{"host-model", "host-passthrough"}
	if k.accelerator != "kvm" {
		modes = []string{"maximum"}
	}
	for _, m := range modes {
		if slices.Contains(k.cpuModes, m) {
			return &libvirtxml.DomainCPU{Mode: m}
		}
	}
	return nil
}

func hasSpice(x libvirtxml.DomainCaps) bool {
	return x.Devices != nil && x.Devices.Graphics != nil && slices.ContainsFunc(x.Devices.Graphics.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "type" && slices.Contains(e.Values, "spice")
	})
}
