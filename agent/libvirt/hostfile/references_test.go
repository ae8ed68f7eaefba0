package hostfile

import (
	"encoding/binary"
	"slices"
	"testing"
)

// extension writes a qcow2 header extension at this offset and returns the next offset.
func extension(h []byte, at int, kind uint32, value string) int {
	binary.BigEndian.PutUint32(h[at:], kind)
	binary.BigEndian.PutUint32(h[at+4:], uint32(len(value)))
	return at + 8 + (copy(h[at+8:], value)+7)&^7
}

func TestParseReferencesReadsHeaderOnly(t *testing.T) {
	t.Parallel()
	image := func(version uint32, backing string, extensions func([]byte, int)) []byte {
		return qcow2Header(version, func(h []byte) {
			at := 72
			if version > 2 {
				binary.BigEndian.PutUint32(h[100:], 104)
				at = 104
			}
			if extensions != nil {
				extensions(h, at)
			}
			binary.BigEndian.PutUint64(h[8:], 300)
			binary.BigEndian.PutUint32(h[16:], uint32(copy(h[300:], backing)))
		})
	}
	for name, c := range map[string]struct {
		text []byte
		want []ImageReference
	}{
		"plain":       {qcow2Header(3, nil), nil},
		"raw":         {[]byte("anything"), nil},
		"cut off":     {image(3, "base", nil)[:302], nil},
		"backing":     {image(3, "base.qcow2", nil), []ImageReference{{"base.qcow2", false}}},
		"backing, v2": {image(2, "/v/base", nil), []ImageReference{{"/v/base", false}}},
		"raw backing": {image(3, "base.img", func(h []byte, at int) { extension(h, at, qcow2BackingFormat, "raw") }), []ImageReference{{"base.img", true}}},
		"data file and backing": {image(3, "b", func(h []byte, at int) {
			extension(h, extension(h, at, qcow2BackingFormat, "qcow2"), qcow2DataName, "d.raw")
		}), []ImageReference{{"d.raw", true}, {"b", false}}},
	} {
		if got := parseReferences(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for name, want := range map[string][]string{
		"/v/a": {"/v/a"}, "file:/v/a": {"/v/a"}, "json:{": nil,
		`json:{"driver":"qcow2","file":{"driver":"file","filename":"/v/a"}}`: {"/v/a"},
		`json:{"file.filename":"/v/a"}`:                                      {"/v/a"},
	} {
		if got := filesOfImageName(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func FuzzParseReferences(f *testing.F) {
	f.Add(qcow2Header(3, func(h []byte) { h[15], h[19] = 200, 9 }))
	f.Add(qcow2Header(2, nil)[:72])
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, r := range parseReferences(text) {
			_ = filesOfImageName(r.Path)
		}
	})
}
