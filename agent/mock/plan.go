package mock

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"path"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// PlanVM implements hypervisor.VMs.
func (h *Host) PlanVM(ctx context.Context, in hypervisor.ApplyWork) (before, after string, err error) {
	if err := h.simulateCall(ctx); err != nil {
		return "", "", err
	}
	if _, err := h.volumesToCreate(in); err != nil {
		return "", "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	plan := h.planEdit(in)
	name, spec := h.freeDomainName(in), fleet.VMSpec{Firmware: fleet.BIOS}
	if g, known := h.guests[in.VM.ID]; known {
		spec = g.persistent.spec
		before = h.renderXML(in, g.name, spec)
		if g.isRunning() || !plan.SetName && g.applied.PendingDomainName(g.name) == "" {
			name = g.name
		}
	}
	if name == "" {
		return "", "", fleet.Errorf(fleet.Conflict, "Other domains on the host have all names that this VM's domain could get.")
	}
	return before, h.renderXML(in, name, editedSpec(spec, plan, in.VM.Spec)), nil
}

// renderXML returns a definition similar to libvirt's XML.
func (h *Host) renderXML(in hypervisor.ApplyWork, name string, s fleet.VMSpec) string {
	var b strings.Builder
	line := func(depth int, format string, args ...any) {
		for i, a := range args {
			var text strings.Builder
			_ = xml.EscapeText(&text, fmt.Append(nil, a)) // a strings.Builder never returns an error
			args[i] = text.String()
		}
		fmt.Fprintf(&b, strings.Repeat("  ", depth)+format+"\n", args...)
	}
	file := func(ref fleet.Volref) string {
		for _, p := range in.Pools {
			if p.ID == ref.PoolID {
				return path.Join(volumePathPrefix(p.Spec), ref.Volume)
			}
		}
		return ref.Volume
	}
	line(0, `<domain type="qemu">`)
	line(1, `<name>%s</name>`, name)
	line(1, `<uuid>%s</uuid>`, in.VM.ID)
	line(1, `<memory unit="KiB">%s</memory>`, s.MemoryMiB*1024)
	line(1, `<currentMemory unit="KiB">%s</currentMemory>`, s.MemoryMiB*1024)
	line(1, `<vcpu placement="static">%s</vcpu>`, s.CPUs)
	if s.Firmware == fleet.UEFI {
		line(1, `<os firmware="efi">`)
	} else {
		line(1, `<os>`)
	}
	line(2, `<type arch="x86_64" machine="%s">hvm</type>`, cmp.Or(s.Boot.Machine, "q35"))
	line(1, `</os>`)
	for _, f := range fleet.OptionalFields() {
		if !f.Default(s) {
			line(1, `<setting name="%s">%s</setting>`, f.Name, f.Words(s))
		}
	}
	line(1, `<devices>`)
	for i, d := range s.Disks {
		line(2, `<disk type="file" device="disk">`)
		line(3, `<driver name="qemu" type="%s" discard="unmap"></driver>`, d.FileFormat())
		line(3, `<source file="%s"></source>`, file(d.Ref()))
		line(3, `<target dev="vd%s" bus="virtio"></target>`, string(rune('a'+i%26)))
		line(2, `</disk>`)
	}
	line(2, `<disk type="file" device="cdrom">`)
	if s.ISO != nil {
		line(3, `<source file="%s"></source>`, file(*s.ISO))
	}
	line(3, `<target dev="sda" bus="sata"></target>`)
	line(2, `</disk>`)
	for _, n := range s.NICs {
		line(2, `<interface>`)
		line(3, `<mac address="%s"></mac>`, strings.ToLower(n.MAC))
		switch {
		case n.Bridge != "":
			line(3, `<source bridge="%s"></source>`, n.Bridge)
		case n.PortGroup != "":
			line(3, `<source network="%s" portgroup="%s"></source>`, n.Network, n.PortGroup)
		default:
			line(3, `<source network="%s"></source>`, n.Network)
		}
		line(3, `<model type="virtio"></model>`)
		line(2, `</interface>`)
	}
	line(1, `</devices>`)
	line(0, `</domain>`)
	return b.String()
}
