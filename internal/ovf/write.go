package ovf

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

const head = `<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData" xmlns:vmw="http://www.vmware.com/schema/ovf">
`

const vmdkFormat = "http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"

// controllers maps each kind of disk controller to its CIM resource type and subtype.
var controllers = map[string]struct {
	kind int
	sub  string
}{
	"pvscsi": {kindSCSI, "VirtualSCSI"}, "lsilogic": {kindSCSI, "lsilogic"}, "lsilogicsas": {kindSCSI, "lsilogicsas"}, "buslogic": {kindSCSI, "buslogic"},
	"ide": {kindIDE, ""}, "sata": {kindSATA, "vmware.sata.ahci"}, "nvme": {kindSATA, "vmware.nvme.controller"},
}

var models = map[string]string{"vmxnet3": "VmxNet3", "vmxnet2": "VmxNet2", "e1000": "E1000", "e1000e": "E1000e", "pcnet": "PCNet32", "virtio": "virtio"}

// systems maps each OS family to the CIM number and name of its 64-bit variant.
var systems = map[string]struct {
	id   int
	kind string
}{"linux": {101, "other3xLinux64Guest"}, "windows": {103, "windows9Server64Guest"}, "bsd": {78, "freebsd64Guest"}}

// Write returns the descriptor of a VM. A disk with a Member is a VMDK file; any other disk is empty.
func Write(a fleet.Appliance) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	line := func(format string, args ...any) {
		for i, v := range args {
			if s, ok := v.(string); ok {
				args[i] = escapeXML(s)
			}
		}
		fmt.Fprintf(&b, format+"\n", args...)
	}
	line("  <References>")
	for i, d := range a.Disks {
		if d.Member != "" {
			line(`    <File ovf:id="file%d" ovf:href="%s" ovf:size="%d"/>`, i+1, d.Member, d.FileBytes)
		}
	}
	line("  </References>\n  <DiskSection>\n    <Info>Virtual disks</Info>")
	for i, d := range a.Disks {
		file := ""
		if d.Member != "" {
			file = fmt.Sprintf(` ovf:fileRef="file%d"`, i+1)
		}
		line(`    <Disk ovf:diskId="disk%d" ovf:capacity="%d" ovf:capacityAllocationUnits="byte" ovf:format="%s"`+file+`/>`, i+1, d.SizeBytes, vmdkFormat)
	}
	line("  </DiskSection>\n  <NetworkSection>\n    <Info>Networks</Info>")
	var networks []string
	for _, n := range a.NICs {
		if n.Network != "" && !slices.Contains(networks, n.Network) {
			networks = append(networks, n.Network)
			line(`    <Network ovf:name="%s"><Description/></Network>`, n.Network)
		}
	}
	line("  </NetworkSection>\n"+`  <VirtualSystem ovf:id="%s">`+"\n    <Info>A virtual machine</Info>\n    <Name>%s</Name>", a.Name, a.Name)
	os, known := systems[a.Family]
	if !known {
		os.id, os.kind = 1, "otherGuest64"
	}
	line(`    <OperatingSystemSection ovf:id="%d" vmw:osType="%s"><Info>The guest</Info><Description>%s</Description></OperatingSystemSection>`, os.id, os.kind, cmp.Or(a.OS, "Other"))
	line("    <VirtualHardwareSection>\n      <Info>Virtual hardware</Info>\n      <System><vssd:ElementName>Virtual Hardware Family</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID><vssd:VirtualSystemIdentifier>%s</vssd:VirtualSystemIdentifier><vssd:VirtualSystemType>vmx-13</vssd:VirtualSystemType></System>", a.Name)
	line("      <Item><rasd:AllocationUnits>hertz * 10^6</rasd:AllocationUnits><rasd:ElementName>%d vCPUs</rasd:ElementName><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>%d</rasd:VirtualQuantity></Item>", a.CPUs, a.CPUs)
	line("      <Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:ElementName>%d MiB of memory</rasd:ElementName><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>%d</rasd:VirtualQuantity></Item>", a.MemoryMiB, a.MemoryMiB)
	var used []string
	for _, d := range a.Disks {
		if name := d.Controller; name != "" && !slices.Contains(used, name) {
			used = append(used, name)
			c := controllers[name]
			line("      <Item><rasd:Address>%d</rasd:Address><rasd:ElementName>%s</rasd:ElementName><rasd:InstanceID>%d</rasd:InstanceID><rasd:ResourceSubType>%s</rasd:ResourceSubType><rasd:ResourceType>%d</rasd:ResourceType></Item>", len(used)-1, name, 10+len(used), c.sub, c.kind)
		}
	}
	at := map[string]int{}
	for i, d := range a.Disks {
		line("      <Item><rasd:AddressOnParent>%d</rasd:AddressOnParent><rasd:ElementName>Disk %d</rasd:ElementName><rasd:HostResource>ovf:/disk/disk%d</rasd:HostResource><rasd:InstanceID>%d</rasd:InstanceID><rasd:Parent>%d</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>",
			at[d.Controller], i+1, i+1, 100+i, 11+slices.Index(used, d.Controller))
		at[d.Controller]++
	}
	for i, n := range a.NICs {
		connection := ""
		if n.Network != "" {
			connection = "<rasd:Connection>" + escapeXML(n.Network) + "</rasd:Connection>"
		}
		line("      <Item><rasd:AutomaticAllocation>true</rasd:AutomaticAllocation>"+strings.ReplaceAll(connection, "%", "%%")+"<rasd:ElementName>NIC %d</rasd:ElementName><rasd:InstanceID>%d</rasd:InstanceID><rasd:ResourceSubType>%s</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>",
			i+1, 200+i, cmp.Or(models[n.Model], "VmxNet3"))
	}
	if a.Firmware == fleet.UEFI {
		line(`      <vmw:Config ovf:required="false" vmw:key="firmware" vmw:value="efi"/>`)
	}
	line("    </VirtualHardwareSection>\n  </VirtualSystem>\n</Envelope>")
	return b.Bytes()
}

func escapeXML(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // writes to a buffer never fail
	return b.String()
}

// ArchivePlan computes the offsets of files in an archive. The head of the archive (descriptor and manifest) depends on
// the disks and is therefore written last.
type ArchivePlan struct {
	name           string
	descriptorSize int // bytes reserved for the descriptor, which is written after the disks
	next           int64
}

// NewArchivePlan plans the archive of a VM before the sizes and the contents of the disk files are known.
func NewArchivePlan(a fleet.Appliance) ArchivePlan {
	a.Disks = slices.Clone(a.Disks)
	for i := range a.Disks {
		// Reserve space for the longest numbers that Write can print.
		a.Disks[i].SizeBytes, a.Disks[i].FileBytes = math.MaxInt64, math.MaxInt64
	}
	p := ArchivePlan{name: a.Name, descriptorSize: len(Write(a))}
	p.next = 512 + paddedSize(int64(p.descriptorSize)) + 512 + paddedSize(int64(len(p.manifest(diskFileNames(a), nil))))
	return p
}

// diskFileNames returns the names of the VM's disk files.
func diskFileNames(a fleet.Appliance) (out []string) {
	for _, d := range a.Disks {
		if d.Member != "" {
			out = append(out, d.Member)
		}
	}
	return out
}

func paddedSize(n int64) int64 { return (n + 511) / 512 * 512 }

// NextOffsets returns the offsets of the next file: of its tar header and of its data.
func (p ArchivePlan) NextOffsets() (header, data int64) { return p.next, p.next + 512 }

// AddFile records the size in bytes of the file at the offsets that NextOffsets returned.
func (p *ArchivePlan) AddFile(size int64) { p.next += 512 + paddedSize(size) }

// Size returns the size of the complete archive in bytes.
func (p ArchivePlan) Size() int64 { return p.next + 1024 }

// TarHeader returns the tar header for a plain file of size bytes.
func TarHeader(name string, size int64) ([]byte, error) {
	var b bytes.Buffer
	h := &tar.Header{Name: name, Size: size, Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
	if size >= 8<<30 {
		h.Format = tar.FormatGNU // USTAR limits sizes to 8 GiB
	}
	if err := tar.NewWriter(&b).WriteHeader(h); err != nil {
		return nil, err
	}
	if b.Len() != 512 {
		return nil, fmt.Errorf("the tar header of %s has %d bytes, want 512", name, b.Len())
	}
	return b.Bytes(), nil
}

// manifest returns the checksums of the descriptor and then of the files. If sums is nil, it contains placeholders of
// the same length.
func (p ArchivePlan) manifest(files []string, sums []string) []byte {
	var b bytes.Buffer
	for i, name := range append([]string{p.name + ".ovf"}, files...) {
		sum := strings.Repeat("0", 64)
		if sums != nil {
			sum = sums[i]
		}
		fmt.Fprintf(&b, "SHA256(%s)= %s\n", name, sum)
	}
	return b.Bytes()
}

// WriteHead writes the head of the archive, which precedes the disks. sums are the SHA-256 checksums of the disk files
// in hexadecimal, in order.
func (p ArchivePlan) WriteHead(to io.WriterAt, a fleet.Appliance, sums []string) error {
	text := Write(a)
	if len(text) > p.descriptorSize {
		return fmt.Errorf("a descriptor of %d bytes is longer than the %d reserved bytes", len(text), p.descriptorSize)
	}
	text = append(text, bytes.Repeat([]byte("\n"), p.descriptorSize-len(text))...)
	own := newHash("SHA256")
	own.Write(text)
	manifest := p.manifest(diskFileNames(a), append([]string{hex.EncodeToString(own.Sum(nil))}, sums...))
	var b bytes.Buffer
	for _, f := range []struct {
		name string
		text []byte
	}{{p.name + ".ovf", text}, {p.name + ".mf", manifest}} {
		h, err := TarHeader(f.name, int64(len(f.text)))
		if err != nil {
			return err
		}
		b.Write(h)
		b.Write(f.text)
		b.Write(make([]byte, paddedSize(int64(len(f.text)))-int64(len(f.text))))
	}
	_, err := to.WriteAt(b.Bytes(), 0)
	return err
}
