package image_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"quantix/agent/image"
	"quantix/internal/fleet"
)

// otherFormatHeaders build, by format, complete headers of other products' disks of 1 GiB.
var otherFormatHeaders = map[string]func() []byte{
	"vmdk": func() []byte {
		text := make([]byte, 64<<10)
		copy(text, "KDMV")
		binary.LittleEndian.PutUint32(text[4:], 3)
		binary.LittleEndian.PutUint64(text[12:], 1<<30/512)
		binary.LittleEndian.PutUint64(text[28:], 1)
		binary.LittleEndian.PutUint64(text[36:], 20)
		copy(text[512:], "# Disk DescriptorFile\nversion=1\nparentCID=ffffffff\ncreateType=\"streamOptimized\"\n")
		return text
	},
	"vhdx": func() []byte {
		text := make([]byte, 1<<20)
		copy(text, "vhdxfile")
		put := func(at int, id string) {
			b, _ := hex.DecodeString(id)
			copy(text[at:], b)
		}
		const regions, metadata = 192 << 10, 512 << 10
		copy(text[regions:], "regi")
		binary.LittleEndian.PutUint32(text[regions+8:], 1)
		put(regions+16, "06a27c8b90479a4bb8fe575f050f886e")
		binary.LittleEndian.PutUint64(text[regions+32:], metadata)
		copy(text[metadata:], "metadata")
		binary.LittleEndian.PutUint16(text[metadata+10:], 1)
		put(metadata+32, "2442a52f1bcd7648b2115dbed83bf4b8")
		binary.LittleEndian.PutUint32(text[metadata+48:], 64<<10)
		binary.LittleEndian.PutUint64(text[metadata+64<<10:], 1<<30)
		return text
	},
	"vdi": func() []byte {
		text := make([]byte, 64<<10)
		copy(text[64:], "\x7f\x10\xda\xbe")
		binary.LittleEndian.PutUint32(text[76:], 1)
		binary.LittleEndian.PutUint64(text[368:], 1<<30)
		return text
	},
	"vhd": func() []byte {
		text := make([]byte, 64<<10)
		for _, at := range []int{0, len(text) - 512} {
			copy(text[at:], "conectix")
			binary.BigEndian.PutUint64(text[at+48:], 1<<30)
			binary.BigEndian.PutUint32(text[at+60:], 3)
		}
		return text
	},
}

func TestForeignDiskFormatHeadersAreRead(t *testing.T) {
	t.Parallel()
	for kind, head := range otherFormatHeaders {
		text := head()
		a, err := image.ReadAppliance(bytes.NewReader(text), int64(len(text)), "disk."+kind)
		if err != nil || a == nil || a.Error != "" || len(a.Disks) != 1 || a.Disks[0].SizeBytes != 1<<30 {
			t.Errorf("%s: %+v, %v", kind, a, err)
		}
	}
}

// FuzzForeign parses other products' disks and archives. No accepted disk refers to another file or lacks a size, and
// each refusal has a text.
func FuzzForeign(f *testing.F) {
	for _, head := range otherFormatHeaders {
		f.Add(head())
	}
	f.Add(validQcow2(3, nil))
	f.Add([]byte("# Disk DescriptorFile\nRW 99 FLAT \"/etc/passwd\" 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		facts, err := image.ReadConvertibleFacts(bytes.NewReader(text), int64(len(text)))
		if err == nil && facts.CheckConvertible("x", "") == nil && (facts.Size <= 0 || facts.Size > fleet.MaxDiskBytes || facts.RefersTo != "" || facts.Encrypted || facts.IsArchive) {
			t.Errorf("an invalid disk is accepted: %+v", facts)
		}
		for _, name := range []string{"x.vmdk", "x.vhdx", "x.vhd", "x.vdi", "x.ova"} {
			a, err := image.ReadAppliance(bytes.NewReader(text), int64(len(text)), name)
			if err != nil || a == nil {
				t.Errorf("%s: the archive's fault is not in its Error: %v", name, err)
				continue
			}
			for _, d := range a.Disks {
				if a.Error == "" && (d.SizeBytes <= 0 || d.SizeBytes > fleet.MaxDiskBytes) {
					t.Errorf("%s: a disk of %d bytes is accepted", name, d.SizeBytes)
				}
			}
		}
	})
}
