package ovf

import (
	"slices"
	"strings"

	"quantix/internal/fleet"
)

func (p *descriptorParser) readDisk(i hardwareItem) error {
	if len(p.disks) >= fleet.MaxDisks {
		return invalidError("The descriptor has more than %d disks.", fleet.MaxDisks)
	}
	if len(i.Host) != 1 {
		return invalidError("The descriptor's disk %q has no source, or several.", cleanLine(i.Name))
	}
	d, err := p.diskByHostResource(strings.TrimSpace(i.Host[0]))
	if err != nil {
		return err
	}
	on := p.controllers[strings.TrimSpace(i.Parent)]
	d.Controller = on.kind
	p.disks = append(p.disks, placedDisk{d, on, parseAddress(i.At)})
	return nil
}

// diskByHostResource returns the disk that the reference host ("ovf:/disk/ID") names.
func (p *descriptorParser) diskByHostResource(host string) (out fleet.ApplianceDisk, err error) {
	host = strings.TrimPrefix(host, "ovf:")
	kind, id, _ := strings.Cut(strings.TrimPrefix(host, "/"), "/")
	if kind != "disk" {
		return out, invalidError("The descriptor has a disk that is %q; only disks of its own disk section are accepted.", cleanLine(host))
	}
	same := func(d disk) bool { return d.ID == id }
	i := slices.IndexFunc(p.Disks, same)
	switch {
	case i < 0:
		return out, invalidError("The descriptor has a device with the disk %q, which it does not describe.", cleanLine(id))
	case slices.ContainsFunc(p.Disks[i+1:], same):
		return out, invalidError("The descriptor describes the disk %q twice.", cleanLine(id))
	}
	d := p.Disks[i]
	if d.Parent != "" {
		return out, invalidError("The disk %q has a parent disk. Export the machine without snapshots.", cleanLine(id))
	}
	if out.SizeBytes, err = parseBytes("the size of a disk", d.Capacity, d.Units, 1); err != nil {
		return out, err
	}
	if out.SizeBytes <= 0 || out.SizeBytes > fleet.MaxDiskBytes {
		return out, invalidError("The disk %q has %s, which no disk here can have.", cleanLine(id), fleet.FormatBytes(out.SizeBytes))
	}
	if d.File == "" {
		return out, nil
	}
	r := slices.IndexFunc(p.Files, func(f reference) bool { return f.ID == d.File })
	switch {
	case r < 0:
		return out, invalidError("The disk %q is in the file %q, to which the descriptor does not refer.", cleanLine(id), cleanLine(d.File))
	case slices.Contains(p.usedFiles, d.File):
		return out, invalidError("Two disks are in the same file, %s.", p.Files[r].Href)
	}
	p.usedFiles = append(p.usedFiles, d.File)
	out.Member = p.Files[r].Href
	for _, f := range p.files {
		if f.Name == out.Member {
			out.FileBytes = f.Size
		}
	}
	out.Format = declaredFormat(d.Format, out.Member)
	if out.Format == "" {
		return out, invalidError("The disk %s has the format %q. VMDK, VHD, VHDX, VDI, qcow2 and raw are accepted.", out.Member, cleanLine(d.Format))
	}
	return out, nil
}

// declaredFormat returns the disk's declared format. The host detects the actual format when it reads the disk file.
func declaredFormat(uri, name string) string {
	uri, name = strings.ToLower(uri), strings.ToLower(name)
	for _, f := range []struct{ word, ext, format string }{
		{"vmdk", ".vmdk", "vmdk"}, {"vhdx", ".vhdx", "vhdx"}, {"vhd", ".vhd", "vpc"}, {"virtualpc", ".vhd", "vpc"}, {"vdi", ".vdi", "vdi"}, {"qcow", ".qcow2", "qcow2"}, {"raw", ".raw", "raw"}, {"raw", ".img", "raw"},
	} {
		if strings.Contains(uri, f.word) || uri == "" && strings.HasSuffix(name, f.ext) {
			return f.format
		}
	}
	return ""
}
