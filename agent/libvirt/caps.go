package libvirt

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/cpumap"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/network"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

const (
	capabilityMaxAge = time.Hour // after this time the capabilities are read again
	// The host report waits capabilityReportTimeout for the capabilities, and the creation of a VM waits
	// capabilityVMTimeout. On the first call libvirtd starts and probes every installed QEMU binary, which takes seconds.
	capabilityReportTimeout = 5 * time.Second
	capabilityVMTimeout     = time.Minute
)

// capabilities describes the guests that this host can run.
type capabilities struct {
	arch         string
	accelerators []domxml.AcceleratorKind // best first
	firmware     []fleet.Firmware
	secureBoot   bool   // at least one firmware supports secure boot
	spice        bool   // QEMU supports SPICE
	version      uint64 // libvirt's version; 9001000 is 9.1
	// reason why a kind of memory encryption is unavailable, by kind; no entry: available
	encryptionGaps   map[string]string
	cpuModels        []string // named CPU models that guests of the best kind can use
	cpuModelGaps     []fleet.CPUModelGap
	missingPoolTypes []string      // libvirt's names of pool types without a driver
	bandwidthGaps    []fleet.VMGap // NIC limits that the kernel does not support
}

// capabilityInventory returns the capabilities as HostState reports them. They are empty until libvirtd has probed
// QEMU.
func (b *Backend) capabilityInventory(ctx context.Context) fleet.Inventory {
	var inv fleet.Inventory
	s := b.capabilityWatch.Read(ctx, capabilityMaxAge, capabilityReportTimeout, b.readCapabilities)
	for _, k := range s.Value.accelerators {
		inv.Accelerators = append(inv.Accelerators, k.Accelerator)
	}
	inv.Firmwares, inv.CPUModels, inv.CPUModelGaps = s.Value.firmware, s.Value.cpuModels, s.Value.cpuModelGaps
	inv.PoolGaps = storage.PoolGaps(s.Value.missingPoolTypes, exec.LookPath)
	inv.VMGaps = missingProgramGaps(exec.LookPath, os.Stat)
	if s.Known && !s.Value.secureBoot {
		inv.VMGaps = append(inv.VMGaps, fleet.VMGap{Field: "security.secureBoot", Why: "libvirt finds no firmware with secure boot. Install ovmf (edk2-ovmf)."})
	}
	if s.Known {
		inv.VMGaps = append(inv.VMGaps, s.Value.vmGaps()...)
	}
	return inv
}

// vmGaps returns the VM fields that libvirt, QEMU or the kernel do not support.
func (c capabilities) vmGaps() (gaps []fleet.VMGap) {
	gaps = append(gaps, c.bandwidthGaps...)
	if !c.spice {
		for _, f := range []string{"display.spice", "display.usbRedirection"} {
			gaps = append(gaps, fleet.VMGap{Field: f, Why: "QEMU on this host has no SPICE. Install qemu-system-modules-spice (qemu-spice)."})
		}
	}
	for _, k := range fleet.ConfidentialKinds[1:] {
		if why := c.encryptionGaps[k.Value]; why != "" {
			gaps = append(gaps, fleet.VMGap{Field: "security.confidential", Value: k.Value, Why: why})
		}
	}
	if len(c.accelerators) > 0 && !slices.Contains(c.accelerators[0].Machines, fleet.MachinePC) {
		gaps = append(gaps, fleet.VMGap{Field: "boot.machine", Value: fleet.MachinePC, Why: "QEMU on this host does not support the machine type pc. Choose q35."})
	}
	if c.version < 9_001_000 {
		gaps = append(gaps, fleet.VMGap{Field: "devices.watchdog", Value: "itco", Why: "The iTCO watchdog needs libvirt 9.1. Choose another watchdog."})
	}
	if c.version < 11_005_000 {
		gaps = append(gaps, fleet.VMGap{Field: "disks.bus", Value: "nvme", Why: "The NVMe bus needs libvirt 11.5. Choose another bus."})
	}
	return gaps
}

// missingProgramGaps returns the VM fields whose program or kernel module is missing on the host.
func missingProgramGaps(lookPath func(program string) (string, error), stat func(path string) (os.FileInfo, error)) (gaps []fleet.VMGap) {
	if _, err := lookPath("swtpm"); err != nil {
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
	c, err := b.daemon.Dial(b.daemon.RunContext)
	if err != nil {
		return capabilities{}, err
	}
	defer c.Disconnect()
	caps, err := conn.Call(b.daemon.RunContext, c, queryCapabilities)
	if err == nil {
		caps.bandwidthGaps = network.MissingBandwidthLimits(b.daemon.RunContext, network.TrafficControl)
	}
	return caps, err
}

func queryCapabilities(l *golibvirt.Libvirt) (capabilities, error) {
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
	if caps.missingPoolTypes, err = storage.MissingPoolTypes(l); err != nil {
		return capabilities{}, err
	}
	for _, accelerator := range accelerators(host, caps.arch) {
		k := domxml.AcceleratorKind{Accelerator: accelerator}
		for _, machine := range domxml.SupportedMachines {
			// libvirt returns an error for a combination of machine type and accelerator that it cannot run.
			text, err := l.ConnectGetDomainCapabilities(nil, golibvirt.OptString{caps.arch}, golibvirt.OptString{machine}, golibvirt.OptString{accelerator}, 0)
			if err != nil && !conn.IsLibvirtError(err) {
				return capabilities{}, err
			}
			var x libvirtxml.DomainCaps
			if err != nil || x.Unmarshal(text) != nil || x.Domain != accelerator {
				continue
			}
			if k.Machines = append(k.Machines, machine); k.CPUModes == nil {
				k.CPUModes = cpuModes(x)
			}
			if caps.firmware == nil {
				caps.firmware, caps.secureBoot, caps.spice = firmwares(x), hasSecureBootFirmware(x), hasSpice(x)
				caps.encryptionGaps, caps.cpuModels, caps.cpuModelGaps = encryptionGapsByKind(x, caps.version), cpuModels(x), cpumap.Gaps(x, cpumap.ReadFile)
			}
		}
		if len(k.Machines) > 0 {
			caps.accelerators = append(caps.accelerators, k)
		}
	}
	return caps, nil
}

// accelerators returns the accelerators for guests of the host's own architecture, best first.
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

// cpuModels returns the named CPU models that libvirt reports as usable on this host.
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

// hasSecureBootFirmware reports whether at least one firmware supports secure boot.
func hasSecureBootFirmware(x libvirtxml.DomainCaps) bool {
	return x.OS != nil && x.OS.Loader != nil && slices.ContainsFunc(x.OS.Loader.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "secure" && slices.Contains(e.Values, "yes")
	})
}

func hasSpice(x libvirtxml.DomainCaps) bool {
	return x.Devices != nil && x.Devices.Graphics != nil && slices.ContainsFunc(x.Devices.Graphics.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "type" && slices.Contains(e.Values, "spice")
	})
}
