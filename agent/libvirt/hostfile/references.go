package hostfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"strings"

	"quantix/internal/fleet"
)

// ImageReference is a file named in an image's header. The file of an opaque reference is raw: the agent does not read
// its header.
type ImageReference struct {
	Path   string
	Opaque bool
}

// maxReferenceBytes is how many bytes of an image are read for references. A qcow2 file has its references in the first
// cluster.
const maxReferenceBytes = 64 << 10

// Types of qcow2 header extensions.
const (
	qcow2DataName      = 0x44415441
	qcow2BackingFormat = 0xe2792aca
)

// ReadReferences returns the files named in the image's header, without opening them. It returns none if the image
// cannot be read.
func ReadReferences(path string) []ImageReference {
	f, err := OpenImage(path, true)
	if err != nil {
		return nil
	}
	defer f.Close()
	text := make([]byte, maxReferenceBytes)
	n, _ := f.ReadAt(text, 0) // a partial read is parsed as far as possible
	var out []ImageReference
	for _, r := range parseReferences(text[:n]) {
		for _, name := range filesOfImageName(r.Path) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(path), name)
			}
			out = append(out, ImageReference{name, r.Opaque})
		}
	}
	return out
}

// parseReferences returns the backing file and the external data file named in a qcow2 header.
func parseReferences(text []byte) []ImageReference {
	if len(text) < 72 || !bytes.HasPrefix(text, []byte("QFI\xfb")) {
		return nil
	}
	var out []ImageReference
	at, length := binary.BigEndian.Uint64(text[8:]), uint64(binary.BigEndian.Uint32(text[16:]))
	backing := at != 0 && at < uint64(len(text)) && length <= uint64(len(text))-at
	format := ""
	next := uint64(72)
	if binary.BigEndian.Uint32(text[4:]) > 2 && len(text) >= 104 {
		next = uint64(binary.BigEndian.Uint32(text[100:]))
	}
	for next+8 <= uint64(len(text)) {
		kind, size := binary.BigEndian.Uint32(text[next:]), uint64(binary.BigEndian.Uint32(text[next+4:]))
		if next += 8; kind == 0 || size > uint64(len(text))-next {
			break
		}
		switch value := string(text[next : next+size]); kind {
		case qcow2BackingFormat:
			format = value
		case qcow2DataName:
			out = append(out, ImageReference{value, true})
		}
		next += (size + 7) &^ 7
	}
	if backing {
		name := string(text[at : at+length])
		out = append(out, ImageReference{name, format == fleet.Raw || format == "" && fleet.IsRawName(name)})
	}
	return out
}

// filesOfImageName returns the files that QEMU opens for a file name of an image. The name may have the prefix "file:"
// or be a JSON description.
func filesOfImageName(name string) []string {
	text, described := strings.CutPrefix(name, "json:")
	if !described {
		return []string{strings.TrimPrefix(name, "file:")}
	}
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return nil
	}
	return fileNamesInJSON(value)
}

// fileNamesInJSON returns the file names in a JSON description of a block device.
func fileNamesInJSON(value any) (out []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, x := range v {
			if name, ok := x.(string); ok && (key == "filename" || strings.HasSuffix(key, ".filename")) {
				out = append(out, filesOfImageName(strings.TrimPrefix(name, "json:"))...)
			}
			out = append(out, fileNamesInJSON(x)...)
		}
	case []any:
		for _, x := range v {
			out = append(out, fileNamesInJSON(x)...)
		}
	}
	return out
}
