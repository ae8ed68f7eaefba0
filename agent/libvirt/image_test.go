package libvirt

import (
	"encoding/binary"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// qcow2 is the start of an image; change may spoil it.
func qcow2(version uint32, change func([]byte)) []byte {
	h := make([]byte, headerBytes)
	copy(h, "QFI\xfb")
	binary.BigEndian.PutUint32(h[4:], version)
	binary.BigEndian.PutUint64(h[24:], 5<<30)
	if change != nil {
		change(h)
	}
	return h
}

func TestHeadersAreJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    []byte
		format  string
		size    int64
		refused string // empty: may be cloned
	}{
		"qcow2 version 3":  {qcow2(3, nil), "qcow2", 5 << 30, ""},
		"qcow2 version 2":  {qcow2(2, nil)[:72], "qcow2", 5 << 30, ""},
		"raw":              {[]byte("anything at all"), "raw", 0, ""},
		"empty":            {nil, "raw", 0, ""},
		"backing file":     {qcow2(3, func(h []byte) { h[15] = 200 }), "qcow2", 5 << 30, "a backing file"},
		"backing, v2":      {qcow2(2, func(h []byte) { h[15] = 200 }), "qcow2", 5 << 30, "a backing file"},
		"data file":        {qcow2(3, func(h []byte) { h[79] = 4 }), "qcow2", 5 << 30, "an external data file"},
		"encrypted":        {qcow2(3, func(h []byte) { h[35] = 2 }), "qcow2", 5 << 30, "encrypted"},
		"version of later": {qcow2(9, nil), "qcow9", 0, "format qcow9"},
		"vmdk descriptor":  {[]byte("# Disk DescriptorFile\nversion=1"), "vmdk", 0, "format vmdk"},
		"qed":              {[]byte("QED\x00"), "qed", 0, "format qed"},
	} {
		h, err := parseHeader(c.text)
		if err != nil || h.format != c.format || h.size != c.size {
			t.Errorf("%s: header is %+v, %v", name, h, err)
		}
		err = checkImage("image", h)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || fleet.CodeOf(err) != fleet.Conflict):
			t.Errorf("%s: %v, want a refusal for %s", name, err, c.refused)
		}
	}
	if _, err := parseHeader(qcow2(3, nil)[:80]); err == nil {
		t.Error("a header that is cut off was taken")
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(qcow2(3, nil))
	f.Add(qcow2(2, nil)[:72])
	f.Add([]byte("QFI\xfb"))
	f.Fuzz(func(t *testing.T, text []byte) { _, _ = parseHeader(text) })
}
