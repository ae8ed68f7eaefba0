package image_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/image"
)

// invalidReason returns the reason why the file is invalid.
func invalidReason(t *testing.T, text []byte) string {
	t.Helper()
	f, err := image.ReadFacts(bytes.NewReader(text), int64(len(text)), true)
	if err != nil {
		return err.Error()
	}
	return f.InvalidReason()
}

// Images written by QEMU's tools are valid, and invalid when truncated at any point.
func TestTruncatedImagesAreInvalid(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("no qemu-img here")
	}
	for name, options := range map[string][]string{
		"usual": nil, "compressed": {"-c"}, "version 2": {"-o", "compat=0.10"}, "small clusters": {"-o", "cluster_size=512"}, "extended L2": {"-o", "extended_l2=on,cluster_size=65536"},
		"preallocated": {"-o", "preallocation=metadata"}, "wide counts": {"-o", "refcount_bits=64"}, "narrow counts": {"-o", "refcount_bits=1"}, "by zstd": {"-c", "-o", "compression_type=zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, made := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "made")
			text := make([]byte, 8<<20)
			for i := range text { // incompressible data
				text[i] = byte(i * i >> 7 * 31)
			}
			clear(text[2<<20 : 5<<20])
			if err := os.WriteFile(raw, text, 0o600); err != nil {
				t.Fatal(err)
			}
			args := append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, options...), raw, made)
			if out, err := exec.CommandContext(t.Context(), "qemu-img", args...).CombinedOutput(); err != nil {
				t.Fatalf("qemu-img: %v: %s", err, out)
			}
			whole, err := os.ReadFile(made)
			if err != nil {
				t.Fatal(err)
			}
			if why := invalidReason(t, whole); why != "" {
				t.Errorf("the whole image: %s", why)
			}
			for _, part := range []int{95, 80, 50, 20, 1} {
				if why := invalidReason(t, whole[:len(whole)*part/100]); !strings.Contains(why, "cut off") {
					t.Errorf("%d %% of it: %q", part, why)
				}
			}
		})
	}
}

func TestNonImagesAreInvalid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text []byte
		says string
	}{
		"a whole image":     {validQcow2(3, nil), ""},
		"a disk":            {rawDiskContaining(510, "\x55\xaa", rawDiskStartingWith("\xeb\x63")), ""},
		"a disc":            {rawDiskContaining(32769, "CD001", rawDiskStartingWith("")), ""},
		"nothing":           {nil, "It is empty"},
		"encrypted":         {validQcow2(3, putUint32(32, 1)), "The file is encrypted"},
		"encrypted by LUKS": {validQcow2(3, headerExtension(0x0537be77)), "The file is encrypted"},
		"LUKS itself":       {rawDiskStartingWith("LUKS\xba\xbe"), "The file is encrypted"},
		"a data file":       {validQcow2(3, putUint64(72, 4)), "The file refers to an external data file"},
		"a backing file":    {validQcow2(3, putUint64(8, 200)), "The file refers to a backing file"},
		"no table":          {validQcow2(3, nil)[:2*clusterBytes], "The file is invalid"},
		"half a header":     {validQcow2(3, nil)[:40], "cut off"},
		"a packed file":     {rawDiskStartingWith("\x1f\x8b\x08"), "Unpack it first"},
		"counts beyond":     {validQcow2(3, putUint64(clusterBytes, 1<<40)), ""}, // an unused table: QEMU repairs it
	} {
		if why := invalidReason(t, c.text); c.says == "" && why != "" || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q, want %q", name, why, c.says)
		}
	}
}
