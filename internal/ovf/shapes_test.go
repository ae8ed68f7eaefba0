package ovf_test

import (
	"archive/tar"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"quantix/internal/fleet"
	"quantix/internal/ovf"
)

// descriptorWith returns the valid descriptor after replacements. pairs are pairs of old and new text.
func descriptorWith(t *testing.T, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(good, pairs[i]) {
			t.Fatalf("%q is not in the descriptor", pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(good)
}

func TestDisksOrderedByControllerAddressThenUnit(t *testing.T) {
	t.Parallel()
	controller := func(id, kind int, address string) string {
		return fmt.Sprintf("<Item><rasd:Address>%s</rasd:Address><rasd:InstanceID>%d</rasd:InstanceID><rasd:ResourceType>%d</rasd:ResourceType></Item>", address, id, kind)
	}
	disk := func(id string, parent int, unit string) string {
		return fmt.Sprintf("<Item><rasd:AddressOnParent>%s</rasd:AddressOnParent><rasd:HostResource>ovf:/disk/%s</rasd:HostResource><rasd:InstanceID>9%s</rasd:InstanceID>"+
			"<rasd:Parent>%d</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>", unit, id, id, parent)
	}
	for name, c := range map[string]struct{ items, want string }{
		"the second controller's disk first": {controller(3, 6, "1") + controller(4, 6, "0") + disk("c", 3, "0") + disk("b", 4, "1") + disk("a", 4, "0"), "abc"},
		"units beyond nine":                  {controller(3, 6, "0") + disk("c", 3, "10") + disk("a", 3, "2") + disk("b", 3, "9"), "abc"},
		"both channels of IDE":               {controller(3, 5, "1") + controller(4, 5, "0") + disk("b", 3, "0") + disk("a", 4, "1"), "ab"},
		"controllers of two types":           {controller(3, 20, "0") + controller(4, 6, "1") + disk("a", 4, "1") + disk("b", 3, "0"), "ab"},
		"no addresses":                       {controller(3, 6, "") + controller(4, 6, "") + disk("a", 3, "") + disk("b", 3, "") + disk("c", 4, ""), "abc"},
		"an address that is no number":       {controller(3, 6, "0000:00:1f.1") + controller(4, 6, "0") + disk("b", 3, "0") + disk("a", 4, "0"), "ab"},
		"no controllers":                     {disk("a", 3, "") + disk("b", 3, ""), "ab"},
	} {
		var described, refs, got strings.Builder
		var files []ovf.File
		for _, id := range []string{"c", "a", "b"} {
			fmt.Fprintf(&described, `<Disk ovf:capacity="16" ovf:capacityAllocationUnits="byte * 2^20" ovf:diskId="%s" ovf:fileRef="f%s" ovf:format="vmdk"/>`, id, id)
			fmt.Fprintf(&refs, `<File ovf:href="%s" ovf:id="f%s"/>`, id, id)
			files = append(files, ovf.File{Name: id, Size: 1})
		}
		text := `<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData">` +
			"<References>" + refs.String() + "</References><DiskSection>" + described.String() + `</DiskSection><VirtualSystem ovf:id="x"><VirtualHardwareSection>` + c.items + "</VirtualHardwareSection></VirtualSystem></Envelope>"
		a, err := ovf.Parse([]byte(text), files)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, d := range a.Disks {
			got.WriteString(d.Member)
		}
		if got.String() != c.want {
			t.Errorf("%s: order %s, want %s", name, got.String(), c.want)
		}
	}
}

func TestVirtualBoxFirmwareIsRead(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]fleet.Firmware{"EFI": fleet.UEFI, "EFI64": fleet.UEFI, "BIOS": fleet.BIOS} {
		text := descriptorWith(t, `<vmw:Config ovf:required="false" vmw:key="firmware" vmw:value="efi"/>`, "", `</VirtualSystem>`,
			`<vbox:Machine xmlns:vbox="http://www.virtualbox.org/ovf/machine" ovf:required="false"><ovf:Info>x</ovf:Info><Hardware><Firmware type="`+kind+`"/></Hardware></vbox:Machine></VirtualSystem>`)
		a, err := ovf.Parse([]byte(text), []ovf.File{{Name: "disk.vmdk", Size: 5}})
		if err != nil || a.Firmware != want {
			t.Errorf("%s: firmware %q (%v), want %q", kind, a.Firmware, err, want)
		}
		if !slices.ContainsFunc(a.NotImported, func(s string) bool { return strings.HasPrefix(s, "VirtualBox's own settings") }) {
			t.Errorf("left is %q", a.NotImported)
		}
	}
}

// A descriptor names files by URI, a manifest by plain name, and tar may prefix names with "./".
func TestFilesFoundByToolSpecificNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ member, href, prefix string }{
		"escaped":                 {"My VM (1)-ü.vmdk", "My%20VM%20(1)-%C3%BC.vmdk", ""},
		"literal":                 {"My VM.vmdk", "My VM.vmdk", ""},
		"a member with a percent": {"My%20VM.vmdk", "My%20VM.vmdk", ""},
		"below ./":                {"disk.vmdk", "disk.vmdk", "./"},
		"referred to below ./":    {"disk.vmdk", "./disk.vmdk", ""},
	} {
		d := descriptorWith(t, `href="disk.vmdk"`, `href="`+c.href+`"`)
		sums := manifestOf(c.prefix+"web.ovf", d, c.href, "12345") + "SHA256(web.mf)= " + strings.Repeat("0", 64) + "\n"
		text := buildArchive(t, plainEntry(c.prefix+"web.ovf", d), plainEntry(c.prefix+"web.mf", sums), plainEntry(c.prefix+c.member, "12345"))
		if c.prefix != "" {
			text = append(buildArchive(t, entry{tar.Header{Name: "./", Typeflag: tar.TypeDir}, ""})[:512], text...)
		}
		a, files, err := readArchiveBytes(text)
		if err != nil || a.Disks[0].Member != c.member || a.Disks[0].FileBytes != 5 || a.ChecksumAlgorithm != "SHA256" {
			t.Errorf("%s: read is %+v (%v)", name, a, err)
			continue
		}
		if f, there := files.File(a.Disks[0].Member); !there || string(text[f.Offset:f.Offset+f.Size]) != "12345" || len(files.Sums) != 2 {
			t.Errorf("%s: the disk is %+v, the checksums %+v", name, f, files.Sums)
		}
		if len(a.NotImported) != 1 {
			t.Errorf("%s: left is %q", name, a.NotImported)
		}
	}
}

func TestReferencesOutsideArchiveRefused(t *testing.T) {
	t.Parallel()
	for _, href := range []string{"%2e%2e%2fdisk.vmdk", "..%2Fdisk.vmdk", "%2Fetc%2Fshadow", "./../disk.vmdk", "%zz", "%00", "../disk.vmdk"} {
		_, err := ovf.Parse([]byte(descriptorWith(t, `href="disk.vmdk"`, `href="`+href+`"`)), []ovf.File{{Name: "disk.vmdk", Size: 5}})
		checkRefused(t, href, err, "archive")
	}
}

func TestChunkedDiskRefused(t *testing.T) {
	t.Parallel()
	d := descriptorWith(t, `ovf:size="5"`, `ovf:size="5" ovf:chunkSize="3"`)
	_, _, err := readArchiveBytes(buildArchive(t, plainEntry("web.ovf", d), plainEntry("disk.vmdk.000000000", "123"), plainEntry("disk.vmdk.000000001", "45")))
	checkRefused(t, "two chunks", err, "disk.vmdk is cut into pieces")
}

func TestDescriptorEncodingsAreDecoded(t *testing.T) {
	t.Parallel()
	in := func(name string) string { return descriptorWith(t, `UTF-8`, name, `Web 01`, "Büro 01") }
	latin, _ := charmap.ISO8859_1.NewEncoder().String(in("ISO-8859-1"))
	windows, _ := charmap.Windows1252.NewEncoder().String(in("windows-1252"))
	little, _ := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(in("UTF-16"))
	big, _ := unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String(in("utf-16"))
	files := []ovf.File{{Name: "disk.vmdk", Size: 5}}
	want, err := ovf.Parse([]byte(in("UTF-8")), files)
	if err != nil || want.Name != "Büro 01" {
		t.Fatalf("in UTF-8 it is %+v (%v)", want, err)
	}
	for name, text := range map[string]string{"ISO-8859-1": latin, "Windows-1252": windows, "UTF-16LE": little, "UTF-16BE": big, "UTF-8 with a mark": "\xef\xbb\xbf" + in("UTF-8")} {
		if a, err := ovf.Parse([]byte(text), files); err != nil || !reflect.DeepEqual(a, want) {
			t.Errorf("%s: it is %+v (%v)", name, a, err)
		}
	}
	for name, message := range map[string]string{"EBCDIC-CP-US": "character encoding EBCDIC-CP-US", "UTF-16": "no byte order mark"} {
		_, err := ovf.Parse([]byte(in(name)), files)
		checkRefused(t, name, err, message)
	}
	_, err = ovf.Parse([]byte("\xff\xfe<\x00!\x00D\x00O\x00C\x00T\x00Y\x00P\x00E\x00>\x00"), files)
	checkRefused(t, "a document type in UTF-16", err, "DOCTYPE")
}
