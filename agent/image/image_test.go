package image_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/image"
)

const clusterBytes = 64 << 10

// validQcow2 returns a complete, empty qcow2 image of 5 GiB; change may corrupt the image.
func validQcow2(version uint32, change func([]byte)) []byte {
	text := make([]byte, 4*clusterBytes)
	copy(text, "QFI\xfb")
	binary.BigEndian.PutUint32(text[4:], version)
	binary.BigEndian.PutUint32(text[20:], 16)
	binary.BigEndian.PutUint64(text[24:], 5<<30)
	binary.BigEndian.PutUint32(text[36:], 10)
	binary.BigEndian.PutUint64(text[40:], 3*clusterBytes)
	binary.BigEndian.PutUint64(text[48:], clusterBytes)
	binary.BigEndian.PutUint32(text[56:], 1)
	if version == 3 {
		binary.BigEndian.PutUint32(text[96:], 4)
		binary.BigEndian.PutUint32(text[100:], 104)
	}
	if change != nil {
		change(text)
	}
	return text
}

func putUint32(at int, v uint32) func([]byte) {
	return func(text []byte) { binary.BigEndian.PutUint32(text[at:], v) }
}

func putUint64(at int, v uint64) func([]byte) {
	return func(text []byte) { binary.BigEndian.PutUint64(text[at:], v) }
}

// headerExtension adds a header extension with a name.
func headerExtension(kind uint32) func([]byte) {
	return func(text []byte) {
		binary.BigEndian.PutUint32(text[104:], kind)
		binary.BigEndian.PutUint32(text[108:], 11)
		copy(text[112:], "/etc/passwd")
	}
}

// rawDiskStartingWith returns a raw image that begins with begin.
func rawDiskStartingWith(begin string) []byte { return append([]byte(begin), make([]byte, 1<<20)...) }

func rawDiskContaining(where int, word string, text []byte) []byte {
	copy(text[where:], word)
	return text
}

func TestInvalidDownloadedImagesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    []byte
		refused string // empty: accepted
		iso     bool
	}{
		"qcow2 version 3":              {text: validQcow2(3, nil)},
		"qcow2 version 2":              {text: validQcow2(2, nil)},
		"dirty":                        {text: validQcow2(3, putUint64(72, 1))},
		"raw":                          {text: rawDiskContaining(510, "\x55\xaa", rawDiskStartingWith("\xeb\x63"))},
		"iso":                          {text: rawDiskContaining(32769, "CD001", rawDiskStartingWith("")), iso: true},
		"iso as a disk":                {text: rawDiskContaining(32769, "CD001", rawDiskStartingWith("\x33\xed"))},
		"udf":                          {text: rawDiskContaining(32769+2048, "NSR02", rawDiskContaining(32769, "BEA01", rawDiskStartingWith(""))), iso: true},
		"no disc":                      {text: rawDiskStartingWith(""), iso: true, refused: "not an ISO image"},
		"descriptor elsewhere":         {text: rawDiskContaining(32769+4096, "CD001", rawDiskStartingWith("")), iso: true, refused: "not an ISO image"},
		"qcow2 as a disc":              {text: rawDiskContaining(32769, "CD001", validQcow2(3, nil)), iso: true, refused: "not an ISO image"},
		"backing file":                 {text: validQcow2(3, putUint64(8, 200)), refused: "a backing file"},
		"backing format alone":         {text: validQcow2(3, headerExtension(0xe2792aca)), refused: "a backing file"},
		"data file":                    {text: validQcow2(3, putUint64(72, 4)), refused: "an external data file"},
		"data file by its name alone":  {text: validQcow2(3, headerExtension(0x44415441)), refused: "an external data file"},
		"encrypted":                    {text: validQcow2(3, putUint32(32, 1)), refused: "encrypted"},
		"encrypted by LUKS":            {text: validQcow2(3, headerExtension(0x0537be77)), refused: "encrypted"},
		"corrupt":                      {text: validQcow2(3, putUint64(72, 2)), refused: "it is corrupt"},
		"unknown feature":              {text: validQcow2(3, putUint64(72, 1<<40)), refused: "bit 40"},
		"unknown compression":          {text: validQcow2(3, func(b []byte) { putUint64(72, 8)(b); putUint32(100, 112)(b); b[104] = 7 }), refused: "compression"},
		"tiny clusters":                {text: validQcow2(3, putUint32(20, 3)), refused: "clusters of 2^3"},
		"huge clusters":                {text: validQcow2(3, putUint32(20, 63)), refused: "clusters of 2^63"},
		"absurd size":                  {text: validQcow2(3, putUint64(24, 1<<62)), refused: "absurd size"},
		"negative size":                {text: validQcow2(3, putUint64(24, 1<<63)), refused: "absurd size"},
		"no size":                      {text: validQcow2(3, putUint64(24, 0)), refused: "the size 0"},
		"header of no length":          {text: validQcow2(3, putUint32(100, 0)), refused: "its own length"},
		"table outside":                {text: validQcow2(3, putUint64(40, 1<<40)), refused: "outside the file"},
		"table over the header":        {text: validQcow2(3, putUint64(40, 0)), refused: "outside the file"},
		"table too short":              {text: validQcow2(3, putUint32(36, 1)), refused: "fewer than the 10"},
		"table too long":               {text: validQcow2(3, putUint32(36, 1<<31)), refused: "entries"},
		"reference counts outside":     {text: validQcow2(3, putUint64(48, 64<<20)), refused: "outside the file"},
		"no reference counts":          {text: validQcow2(3, putUint32(56, 0)), refused: "reference counts of 0"},
		"snapshots outside":            {text: validQcow2(3, func(b []byte) { putUint32(60, 1)(b); putUint64(64, 1<<40)(b) }), refused: "outside the file"},
		"L2 table outside":             {text: validQcow2(3, putUint64(3*clusterBytes+8, 1<<63|1<<30)), refused: "outside the file"},
		"cut off":                      {text: validQcow2(3, nil)[:2*clusterBytes], refused: "may be cut off"},
		"extension beyond the cluster": {text: validQcow2(3, func(b []byte) { putUint32(104, 1)(b); putUint32(108, 1<<30)(b) }), refused: "first cluster"},
		"qcow of another version":      {text: validQcow2(1, nil), refused: "qcow1"},
		"vmdk":                         {text: rawDiskStartingWith("KDMV"), refused: "vmdk"},
		"vmdk descriptor":              {text: []byte("# Disk DescriptorFile\nversion=1\n"), refused: "vmdk"},
		"vmdk descriptor in disguise":  {text: rawDiskStartingWith("# nothing\n \n#\nversion=1\nRW 99 FLAT \"/etc/passwd\" 0\n"), refused: "vmdk"},
		"vdi":                          {text: rawDiskContaining(64, "\x7f\x10\xda\xbe", rawDiskStartingWith("")), refused: "vdi"},
		"vhd":                          {text: rawDiskStartingWith("conectix"), refused: "vpc"},
		"fixed vhd":                    {text: append(rawDiskStartingWith(""), append([]byte("conectix"), make([]byte, 504)...)...), refused: "VHD"},
		"vhdx":                         {text: rawDiskStartingWith("vhdxfile"), refused: "vhdx"},
		"qed":                          {text: rawDiskStartingWith("QED\x00"), refused: "qed"},
		"parallels":                    {text: rawDiskStartingWith("WithoutFreeSpace"), refused: "parallels"},
		"luks":                         {text: rawDiskStartingWith("LUKS\xba\xbe"), refused: "encrypted LUKS"},
		"gzip":                         {text: rawDiskStartingWith("\x1f\x8b\x08"), refused: "Unpack it first"},
		"xz":                           {text: rawDiskStartingWith("\xfd7zXZ\x00"), refused: "an xz file"},
		"zstd":                         {text: rawDiskStartingWith("\x28\xb5\x2f\xfd"), refused: "a zstd file"},
		"bzip2":                        {text: rawDiskStartingWith("BZh9"), refused: "a bzip2 file"},
		"zip":                          {text: rawDiskStartingWith("PK\x03\x04"), refused: "a zip file"},
		"tar":                          {text: rawDiskContaining(257, "ustar", rawDiskStartingWith("name")), refused: "a tar file"},
		"gzip for a disc":              {text: rawDiskStartingWith("\x1f\x8b\x08"), iso: true, refused: "Unpack it first"},
		"web page":                     {text: []byte("\n<!DOCTYPE html><html><body>Not found"), refused: "a web page, not an image"},
		"web page for a disc":          {text: []byte("<html>"), iso: true, refused: "a web page, not an image"},
		"xml":                          {text: []byte("<?xml version='1.0'?><Error/>"), refused: "an XML document"},
		"json name":                    {text: []byte(`json:{"driver":"raw","file":{"filename":"/etc/shadow"}}`), refused: "text"},
		"text":                         {text: []byte("Löschen Sie das nicht.\n"), refused: "text"},
		"empty":                        {text: nil, refused: "empty"},
	} {
		f, err := image.ReadFacts(bytes.NewReader(c.text), int64(len(c.text)), true)
		if err == nil {
			err = f.CheckDownloaded(c.iso)
		}
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want a refusal for %s", name, err, c.refused)
		}
	}
	for n := range 110 {
		short := validQcow2(3, nil)[:n]
		if f, err := image.ReadFacts(bytes.NewReader(short), int64(n), true); err == nil && f.CheckDownloaded(false) == nil {
			t.Errorf("%d bytes of a qcow2 image were taken: %+v", n, f)
		}
	}
}

// The tables of a disk in use are not checked, and raw volumes may have any content.
func TestClonableImagesAreSelfContained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text                          []byte
		deep                          bool
		clonable, bootable, forDrives bool
	}{
		"qcow2":           {validQcow2(3, nil), true, true, true, false},
		"spoilt":          {validQcow2(3, putUint64(40, 1<<40)), true, false, false, false},
		"not looked into": {validQcow2(3, putUint64(40, 1<<40)), false, true, true, false},
		"backing":         {validQcow2(3, putUint64(8, 1)), false, false, false, false},
		"vmdk":            {rawDiskStartingWith("KDMV"), true, false, false, false},
		"text":            {[]byte("words"), true, true, false, false},
		"packed":          {rawDiskStartingWith("\x1f\x8b"), true, true, false, false},
		"iso":             {rawDiskContaining(32769, "CD001", rawDiskStartingWith("")), true, true, true, true},
		"qcow2 and iso":   {rawDiskContaining(32769, "CD001", validQcow2(3, nil)), true, true, true, false},
	} {
		f, err := image.ReadFacts(bytes.NewReader(c.text), int64(len(c.text)), c.deep)
		if err != nil {
			t.Fatal(err)
		}
		got := [3]bool{f.CheckClonable("x") == nil, f.CheckBootable("x") == nil, f.CheckISO("x") == nil}
		if want := [3]bool{c.clonable, c.bootable, c.forDrives}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestQemuImgAgreesWithHeaderReader(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("no qemu-img")
	}
	dir := t.TempDir()
	ask := func(name string) (image.Facts, error) {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		before, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		facts, err := image.ReadFacts(f, before.Size(), true)
		if err != nil {
			t.Fatal(err)
		}
		err = image.VerifyWithQemuImg(t.Context(), f, facts)
		if after, _ := f.Stat(); after.Mode() != before.Mode() {
			t.Errorf("%s: the file's mode was %v and is %v", name, before.Mode(), after.Mode())
		}
		return facts, err
	}
	for _, args := range [][]string{
		{"sound.qcow2", "-f", "qcow2"},
		{"old.qcow2", "-f", "qcow2", "-o", "compat=0.10"},
		{"zstd.qcow2", "-f", "qcow2", "-o", "compression_type=zstd"},
		{"fine.qcow2", "-f", "qcow2", "-o", "extended_l2=on,cluster_size=128k"},
		{"small.qcow2", "-f", "qcow2", "-o", "cluster_size=512"},
		{"full.qcow2", "-f", "qcow2", "-o", "preallocation=metadata"},
		{"plain.raw", "-f", "raw"},
	} {
		path := filepath.Join(dir, args[0])
		if out, err := exec.Command("qemu-img", append(append([]string{"create", "-q"}, args[1:]...), path, "24M")...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", args[0], err, out)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := ask(args[0])
		if err != nil || f.CheckDownloaded(false) != nil || f.Size != 24<<20 {
			t.Errorf("%s: %+v, %v, %v", args[0], f, err, f.CheckDownloaded(false))
		}
	}
	for name, change := range map[string]func(*image.Facts){
		"its header says qcow2": func(f *image.Facts) { f.Format = "qcow2" },
		"but its header":        func(f *image.Facts) { f.Size = 4096 },
	} {
		f, err := os.Open(filepath.Join(dir, "plain.raw"))
		if err != nil {
			t.Fatal(err)
		}
		facts := image.Facts{Format: "raw", Size: 24 << 20}
		change(&facts)
		if err := image.VerifyWithQemuImg(t.Context(), f, facts); err == nil || !strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), "does not accept it") {
			t.Errorf("%s: %v", name, err)
		}
		f.Close()
	}
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-b", "plain.raw", "-F", "raw", filepath.Join(dir, "over.qcow2")).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if f, err := ask("over.qcow2"); err == nil || !strings.Contains(err.Error(), "refers to another file") || f.RefersTo == "" {
		t.Errorf("an overlay: %+v, %v", f, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(validQcow2(3, nil), true)
	f.Add(validQcow2(2, nil), true)
	f.Add(validQcow2(3, headerExtension(0x44415441)), true)
	f.Add(validQcow2(3, nil)[:80], false)
	f.Add([]byte("QFI\xfb"), true)
	f.Add([]byte("# x\n\nversion=1"), true)
	f.Add([]byte("<!DOCTYPE html>"), false)
	f.Add(rawDiskStartingWith("\x1f\x8b"), true)
	f.Fuzz(func(t *testing.T, text []byte, deep bool) {
		facts, err := image.ReadFacts(bytes.NewReader(text), int64(len(text)), deep)
		if err == nil && facts.Size < 0 {
			t.Errorf("%+v", facts)
		}
		_ = facts.CheckDownloaded(true)
	})
}
