package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"quantix/internal/export"
	"quantix/internal/fleet"
)

// volumeBytes returns all bytes of a volume's file, as sent by ReadVolume.
func (h *testHost) volumeBytes(p fleet.Pool, name string) []byte {
	h.t.Helper()
	var b bytes.Buffer
	h.requireNoError("read "+name, h.ReadVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{}), func(int64) (io.Writer, error) { return &b, nil }))
	return b.Bytes()
}

// exportParams returns the parameters of a job that exports a VM with one disk.
func exportParams(vm fleet.VM) fleet.VolumeParams {
	a := export.Appliance(fleet.VMView{VM: vm}, nil)
	return fleet.VolumeParams{Export: &fleet.ExportParams{Appliance: a, Disks: []fleet.Volref{vm.Spec.Disks[0].Ref()}}}
}

// Data written by a guest is exported in an archive and imported by an upload. The disk of the VM created from the
// import has the data.
func testExportAndImportAppliance(t *testing.T, h *testHost) {
	p, other := h.newPool(), h.newPool()
	h.harness.AddImage(t, p, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	linked := newDisk(p)
	linked.SizeBytes, linked.Image, linked.Overlay = 0, &fleet.Volref{PoolID: p.ID, Volume: "golden.qcow2"}, true
	linked.ImageID, linked.VersionID = fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
	vm := h.definedVM(linked)
	status, _, err := h.VM(h.ctx, vm.ID)
	h.requireNoError("read", err)
	h.harness.WriteDisk(t, status.Disks[0].Path, 0x5a)

	w := h.newVolumeJob(p, "out.ova", exportParams(vm))
	file := ""
	w.RecordFile = func(made string) error { file = made; return nil }
	told := &progressRecorder{}
	w.Progress = told.report
	h.requireNoError("export", h.ExportVolume(h.ctx, w))
	told.check(t)
	if w.RecordedFile = file; file == "" {
		t.Fatal("the host did not report the exported file")
	}
	h.requireNoError("repeat the export", h.ExportVolume(h.ctx, w))
	w.RecordedFile = ""
	h.requireRefusal("export to the name of an existing volume", h.ExportVolume(h.ctx, w), "out.ova")
	out, _ := h.reportedVolume(p, "out.ova")
	if a := out.Appliance; out.Format != fleet.FormatOVA || a == nil || a.Error != "" || a.Name != vm.Name || len(a.Disks) != 1 || a.Disks[0].SizeBytes != 4<<20 || a.ChecksumAlgorithm != "SHA256" {
		t.Fatalf("the exported volume is %+v, %+v", out, a)
	}

	text := h.volumeBytes(p, "out.ova")
	u := h.startUpload(other, "in.ova", text, sha256Checksum(text))
	u.sendUpTo(t, int64(len(text)))
	u.wantSuccess(h, "upload the exported archive")
	in, _ := h.reportedVolume(other, "in.ova")
	if in.Appliance == nil || in.Appliance.Error != "" || len(in.Appliance.Disks) != 1 {
		t.Fatalf("the imported VM is %+v", in)
	}
	copied := newDisk(p)
	copied.SizeBytes = in.Appliance.Disks[0].SizeBytes
	c := h.newVolumeJob(p, copied.Volume, fleet.VolumeParams{Source: "in.ova", SourcePool: other.ID, Member: in.Appliance.Disks[0].Member})
	c.SourcePool, c.RecordFile, file = &other, w.RecordFile, ""
	h.requireNoError("convert", h.ConvertVolume(h.ctx, c))
	c.RecordedFile = file
	h.requireNoError("repeat the conversion", h.ConvertVolume(h.ctx, c))
	made := h.newVM(copied)
	order := h.applyJob(made)
	order.CreatedDisks = []fleet.Volref{copied.Ref()}
	h.requireNoError("create a VM from the disk", h.ApplyVM(h.ctx, order))
	status, _, err = h.VM(h.ctx, made.ID)
	h.requireNoError("read", err)
	if got := h.harness.ReadDisk(t, status.Disks[0].Path); got != 0x5a {
		t.Errorf("the VM's disk begins with %#x, want 0x5a", got)
	}
	h.harness.CheckDisk(t, status.Disks[0].Path)

	missing := h.newVolumeJob(p, "missing.qcow2", fleet.VolumeParams{Source: "in.ova", SourcePool: other.ID, Member: "other.vmdk"})
	missing.SourcePool = &other
	h.requireRefusal("convert a disk that is not in the archive", h.ConvertVolume(h.ctx, missing), "no disk other.vmdk")
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.requireRefusal("export a running guest", h.ExportVolume(h.ctx, h.newVolumeJob(p, "running.ova", exportParams(vm))), "is running and uses the volume")
	h.wantNoVolume(p, "missing.qcow2")
	h.wantNoVolume(p, "running.ova")
	h.requireNoError("delete", h.DeleteVolume(h.ctx, h.newVolumeJob(p, "out.ova", fleet.VolumeParams{})))
}

// ovfDescriptor returns the descriptor of an archive with one disk of 1 MiB in that format.
func ovfDescriptor(disk []byte, format string) string {
	return `<?xml version="1.0"?><Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData">` +
		fmt.Sprintf(`<References><File ovf:id="f" ovf:href="disk" ovf:size="%d"/></References><DiskSection><Info/><Disk ovf:diskId="d" ovf:fileRef="f" ovf:capacity="1048576" ovf:format="%s"/></DiskSection>`, len(disk), format) +
		`<VirtualSystem ovf:id="vm"><Info/><Name>vm</Name><VirtualHardwareSection><Info/><Item><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>17</rasd:ResourceType><rasd:HostResource>ovf:/disk/d</rasd:HostResource></Item></VirtualHardwareSection></VirtualSystem></Envelope>`
}

type tarMember struct {
	name string
	text []byte
	kind byte
	link string
}

func newTar(t *testing.T, members ...tarMember) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.text)), Typeflag: m.kind, Linkname: m.link}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(m.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// qcow2WithBackingFile returns the header of a qcow2 image of 1 MiB with a backing file.
func qcow2WithBackingFile(backing string) []byte {
	b := make([]byte, 1<<16)
	copy(b, "QFI\xfb")
	binary.BigEndian.PutUint32(b[4:], 3)
	binary.BigEndian.PutUint64(b[8:], 0x200)
	binary.BigEndian.PutUint32(b[16:], uint32(len(backing)))
	binary.BigEndian.PutUint32(b[20:], 16)
	binary.BigEndian.PutUint64(b[24:], 1<<20)
	binary.BigEndian.PutUint32(b[36:], 1)
	binary.BigEndian.PutUint64(b[40:], 1<<16)
	binary.BigEndian.PutUint32(b[96:], 4)
	binary.BigEndian.PutUint32(b[100:], 104)
	copy(b[0x200:], backing)
	return b
}

// vmdkWithDescriptor returns a sparse VMDK's header with a descriptor.
func vmdkWithDescriptor(sectors uint64, descriptor string) []byte {
	b := make([]byte, 64<<10)
	copy(b, "KDMV")
	binary.LittleEndian.PutUint32(b[4:], 3)
	binary.LittleEndian.PutUint64(b[12:], sectors)
	binary.LittleEndian.PutUint64(b[20:], 128)
	binary.LittleEndian.PutUint64(b[28:], 1)
	binary.LittleEndian.PutUint64(b[36:], 20)
	copy(b[512:], descriptor)
	return b
}

// Invalid archives and archives with outside references are refused during the import, and no file of them is left.
func testUnsafeAppliancesRefused(t *testing.T, h *testHost) {
	p := h.newPool()
	flat := []byte("# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\ncreateType=\"monolithicFlat\"\nRW 8 FLAT \"/etc/passwd\" 0\n")
	const vmdk = "http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"
	with := func(disk []byte, format string) []byte {
		return newTar(t, tarMember{name: "vm.ovf", text: []byte(ovfDescriptor(disk, format))}, tarMember{name: "disk", text: disk})
	}
	good := vmdkWithDescriptor(2048, "createType=\"streamOptimized\"\nparentCID=ffffffff\n")
	entity := strings.Replace(ovfDescriptor(good, vmdk), "<Envelope", `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/shadow">]><Envelope`, 1)
	for name, c := range map[string]struct {
		file string
		text []byte
		says string
	}{
		"a name that leads up":          {"bad.ova", newTar(t, tarMember{name: "vm.ovf", text: []byte(ovfDescriptor(good, vmdk))}, tarMember{name: "../disk", text: good}), "outside"},
		"a link":                        {"bad.ova", newTar(t, tarMember{name: "vm.ovf", text: []byte(ovfDescriptor(nil, vmdk))}, tarMember{name: "disk", kind: tar.TypeSymlink, link: "/etc/shadow"}), "link"},
		"an external entity":            {"bad.ova", newTar(t, tarMember{name: "vm.ovf", text: []byte(entity)}, tarMember{name: "disk", text: good}), "DOCTYPE"},
		"a qcow2 backed by shadow":      {"bad.ova", with(qcow2WithBackingFile("/etc/shadow"), "qcow2"), "refers to"},
		"a qcow2 declared as VMDK":      {"bad.ova", with(qcow2WithBackingFile("/etc/shadow"), vmdk), "refers to"},
		"a VMDK that names passwd":      {"bad.ova", with(flat, vmdk), "only a descriptor"},
		"a VMDK without a size":         {"bad.ova", with(vmdkWithDescriptor(0, string(flat)), vmdk), "no size of its own"},
		"a VMDK of several files":       {"bad.ova", with(vmdkWithDescriptor(2048, string(flat)), vmdk), "other files"},
		"a snapshot of a VMDK":          {"bad.ova", with(vmdkWithDescriptor(2048, "createType=\"streamOptimized\"\nparentCID=12345678\nparentFileNameHint=\"/etc/shadow\"\n"), vmdk), "another disk"},
		"a descriptor without its disk": {"bad.ova", newTar(t, tarMember{name: "vm.ovf", text: []byte(ovfDescriptor(good, vmdk))}), "not in the archive"},
		"a manifest of something else": {"bad.ova", newTar(t, tarMember{name: "vm.ovf", text: []byte(ovfDescriptor(good, vmdk))}, tarMember{name: "disk", text: good},
			tarMember{name: "vm.mf", text: []byte("SHA256(vm.ovf)= " + strings.Repeat("0", 64) + "\nSHA256(disk)= " + strings.Repeat("0", 64) + "\n")}), "manifest says"},
		"no archive":                  {"bad.ova", validImage(64 << 10), "not a complete tar|not a tar archive"},
		"a VMDK that names passwd, 2": {"bad.vmdk", flat, "only a descriptor"},
		"a qcow2 called VMDK":         {"bad.vmdk", qcow2WithBackingFile("/etc/shadow"), "refers to"},
		"bytes that are no VHDX":      {"bad.vhdx", append([]byte("vhdxfile"), make([]byte, 1<<20)...), "no metadata"},
		"bytes that are called VHDX":  {"bad.vhdx", validImage(64 << 10), "its header says raw"},
		"a snapshot of a VHD":         {"bad.vhd", newVHD(4), "another disk"},
	} {
		u := h.startUpload(p, c.file, c.text, sha256Checksum(c.text))
		u.sendUpTo(t, int64(len(c.text)))
		<-u.ended
		refused := false
		for word := range strings.SplitSeq(c.says, "|") {
			refused = refused || u.err != nil && fleet.CodeOf(u.err) == fleet.Invalid && strings.Contains(u.err.Error(), word)
		}
		if !refused {
			t.Errorf("%s: the upload's error is %v, want a refusal with %q", name, u.err, c.says)
		}
		h.wantNoVolume(p, "bad")
	}
}

// newVHD returns the footer of a VHD of that kind, placed at the beginning of the file.
func newVHD(kind uint32) []byte {
	b := make([]byte, 64<<10)
	copy(b, "conectix")
	binary.BigEndian.PutUint64(b[48:], 1<<20)
	binary.BigEndian.PutUint32(b[60:], kind)
	return b
}

// A cancelled conversion ends and leaves no file.
func testConversionCancelled(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	h.requireNoError("export", h.ExportVolume(h.ctx, h.newVolumeJob(p, "out.ova", exportParams(vm))))
	out, _ := h.reportedVolume(p, "out.ova")
	if out.Appliance == nil || len(out.Appliance.Disks) != 1 {
		t.Fatalf("the exported volume is %+v", out)
	}
	ctx, cancel := context.WithCancel(h.ctx)
	in := h.newVolumeJob(p, "disk.qcow2", fleet.VolumeParams{Source: "out.ova", Member: out.Appliance.Disks[0].Member})
	in.Progress = func(int, string) { cancel() }
	if err := h.ConvertVolume(ctx, in); err == nil {
		t.Error("a cancelled conversion left a volume")
	}
	h.wantNoVolume(p, "disk.qcow2")
	h.requireNoError("delete", h.DeleteVolume(h.ctx, h.newVolumeJob(p, "out.ova", fleet.VolumeParams{})))
}
