package image

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"regexp"
	"slices"

	"quantix/internal/fleet"
)

// ReadConvertibleFacts is ReadFacts for images to convert: it also reads the size and the references of other products' disk
// formats.
func ReadConvertibleFacts(r io.ReaderAt, size int64) (Facts, error) {
	f, err := ReadFacts(r, size, true)
	if err != nil {
		return f, err
	}
	at := headerReader{r: r, size: size}
	switch {
	case f.Format == "vmdk":
		f = at.readVMDK()
	case f.Format == "vhdx":
		f = at.readVHDX()
	case f.Format == "vdi":
		f = at.readVDI()
	case f.Format == "vpc":
		f = at.readVHD(0)
	case f.NonDiskContent == fixedVHDText:
		f = at.readVHD(size - 512)
	}
	return f, at.err
}

// CheckConvertible returns an error if the disk cannot be converted: a sentence that names the disk as name. claimed is
// the expected format; empty: any format.
func (f Facts) CheckConvertible(name, claimed string) error {
	refuse := func(format string, args ...any) error {
		return fleet.Errorf(fleet.Invalid, "The disk "+name+" "+format, args...)
	}
	switch {
	case f.RefersTo != "":
		return refuse("refers to %s, which is not imported. Export the disk as one self-contained file.", f.RefersTo)
	case f.Encrypted || f.Format == "luks":
		return refuse("is encrypted. Only unencrypted disks are accepted.")
	case f.HeaderFault != "":
		return refuse("is invalid: %s.", f.HeaderFault)
	case f.IsArchive:
		return refuse("is %s. Unpack it first.", f.NonDiskContent)
	case f.Format != "qcow2" && f.Format != "raw" && !isConvertibleFormat(f.Format):
		return refuse("has the format %s. VMDK, VHD, VHDX, VDI, qcow2 and raw are accepted.", f.Format)
	case claimed != "" && claimed != f.Format:
		return refuse("is declared as %s, but its header says %s, so it is refused.", claimed, f.Format)
	case f.Size <= 0 || f.Size > fleet.MaxDiskBytes:
		return refuse("has the invalid size %s.", fleet.FormatBytes(f.Size))
	}
	return f.checkDisk("The disk "+name, fleet.Invalid)
}

func isConvertibleFormat(format string) bool {
	return slices.Contains(fleet.ConvertedFormats, format)
}

// headerReader reads small parts of a file. Bytes after the file's end are zeros.
type headerReader struct {
	r    io.ReaderAt
	size int64
	err  error
}

func (b *headerReader) bytes(at int64, n int) []byte {
	out := make([]byte, n)
	if at < 0 || at >= b.size || b.err != nil {
		return out
	}
	if _, err := b.r.ReadAt(out, at); err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return out
}

const (
	sectorSize       = 512
	vmdkDescriptor   = 20 * sectorSize // bytes of the embedded descriptor that QEMU reads, right after the header
	vmdkFooterMarker = ^uint64(0)
)

var (
	vmdkTypePattern   = regexp.MustCompile(`(?mi)^\s*createType\s*=\s*"([A-Za-z0-9]*)"`)
	vmdkParentPattern = regexp.MustCompile(`(?mi)^\s*parentCID\s*=\s*([0-9a-f]*)`)
)

// readVMDK reads the header of a sparse disk in one file. A separate descriptor names other files, and so does an
// embedded descriptor if the header has no size.
func (b *headerReader) readVMDK() Facts {
	f := Facts{Format: "vmdk"}
	head := b.bytes(0, sectorSize)
	if !bytes.HasPrefix(head, []byte("KDMV")) {
		f.RefersTo = "other files, because it is only a descriptor"
		return f
	}
	if binary.LittleEndian.Uint64(head[56:]) == vmdkFooterMarker {
		tail := b.bytes(b.size-2*sectorSize, sectorSize)
		if !bytes.HasPrefix(tail, []byte("KDMV")) || !bytes.Equal(tail[12:28], head[12:28]) {
			f.HeaderFault = "its footer is cut off or contradicts its header"
			return f
		}
	}
	capacity := binary.LittleEndian.Uint64(head[12:])
	if capacity == 0 || capacity > fleet.MaxDiskBytes/sectorSize {
		f.RefersTo = "other files, because its header has no size of its own"
		return f
	}
	f.Size = int64(capacity) * sectorSize
	text := b.bytes(sectorSize, vmdkDescriptor)
	if at, n := binary.LittleEndian.Uint64(head[28:]), binary.LittleEndian.Uint64(head[36:]); at > 1 && at < uint64(b.size/sectorSize) && n > 0 && n < 1<<12 {
		text = append(append(text, '\n'), b.bytes(int64(at)*sectorSize, int(n)*sectorSize)...)
	}
	for _, m := range vmdkTypePattern.FindAllSubmatch(text, -1) {
		if kind := string(m[1]); kind != "streamOptimized" && kind != "monolithicSparse" {
			f.RefersTo = "other files, as disks of the kind " + kind + " do"
		}
	}
	for _, m := range vmdkParentPattern.FindAllSubmatch(text, -1) {
		if cid := string(bytes.ToLower(m[1])); cid != "ffffffff" {
			f.RefersTo = "another disk, of which it is a snapshot"
		}
	}
	if bytes.Contains(bytes.ToLower(text), []byte("parentfilenamehint")) {
		f.RefersTo = "another disk, of which it is a snapshot"
	}
	if bytes.Contains(text, []byte("encryption.keySafe")) {
		f.Encrypted = true
	}
	return f
}

// Identifiers of the regions and entries of a VHDX, as stored in the file.
var (
	vhdxMetadata   = guid("06a27c8b90479a4bb8fe575f050f886e")
	vhdxSize       = guid("2442a52f1bcd7648b2115dbed83bf4b8")
	vhdxParameters = guid("3767a1ca36fa434db3b633f0aa44e76b")
)

func guid(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

func (b *headerReader) readVHDX() Facts {
	f := Facts{Format: "vhdx"}
	var table int64
	regions := b.bytes(192<<10, 64<<10)
	for i := range min(int(binary.LittleEndian.Uint32(regions[8:])), 2047) {
		if e := regions[16+32*i:]; bytes.HasPrefix(regions, []byte("regi")) && bytes.Equal(e[:16], vhdxMetadata) {
			table = int64(binary.LittleEndian.Uint64(e[16:]) & (1<<62 - 1))
		}
	}
	items := b.bytes(table, 64<<10)
	if table == 0 || !bytes.HasPrefix(items, []byte("metadata")) {
		f.HeaderFault = "its header has no metadata"
		return f
	}
	for i := range min(int(binary.LittleEndian.Uint16(items[10:])), 2046) {
		e := items[32+32*i:]
		value := b.bytes(table+int64(binary.LittleEndian.Uint32(e[16:])), 8)
		switch {
		case bytes.Equal(e[:16], vhdxSize):
			f.Size = int64(binary.LittleEndian.Uint64(value) & (1<<62 - 1))
		case bytes.Equal(e[:16], vhdxParameters) && value[4]&2 != 0:
			f.RefersTo = "another disk, of which it is a snapshot"
		}
	}
	return f
}

// readVHD reads the footer at the offset. Dynamic disks have a copy of the footer at the beginning of the file.
func (b *headerReader) readVHD(offset int64) Facts {
	f := Facts{Format: "vpc"}
	foot := b.bytes(offset, sectorSize)
	f.Size = int64(binary.BigEndian.Uint64(foot[48:]) & (1<<62 - 1))
	switch kind := binary.BigEndian.Uint32(foot[60:]); kind {
	case 2, 3:
	case 4:
		f.RefersTo = "another disk, of which it is a snapshot"
	default:
		f.HeaderFault = "its footer says that the disk is neither of fixed nor of dynamic size"
	}
	return f
}

func (b *headerReader) readVDI() Facts {
	f := Facts{Format: "vdi"}
	head := b.bytes(0, sectorSize)
	f.Size = int64(binary.LittleEndian.Uint64(head[368:]) & (1<<62 - 1))
	if kind := binary.LittleEndian.Uint32(head[76:]); kind != 1 && kind != 2 {
		f.RefersTo = "another disk, of which it is a snapshot"
	}
	return f
}
