package ovf

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// declaredEncoding matches the name of the encoding in an XML declaration.
var declaredEncoding = regexp.MustCompile(`^<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']`)

// charsets are the supported character encodings besides UTF-8.
var charsets = map[string]encoding.Encoding{
	"iso-8859-1": charmap.ISO8859_1, "latin1": charmap.ISO8859_1, "iso-8859-15": charmap.ISO8859_15, "windows-1252": charmap.Windows1252,
	"us-ascii": encoding.Nop, "ascii": encoding.Nop, "utf-8": encoding.Nop, "utf8": encoding.Nop,
}

var byteOrderMarks = []struct {
	mark string
	of   encoding.Encoding
}{
	{"\xef\xbb\xbf", encoding.Nop},
	{"\xff\xfe", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
	{"\xfe\xff", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
}

// toUTF8 converts a descriptor to UTF-8. The byte order mark determines the descriptor's encoding, else the XML
// declaration does.
func toUTF8(text []byte) ([]byte, error) {
	for _, b := range byteOrderMarks {
		if rest, marked := bytes.CutPrefix(text, []byte(b.mark)); marked {
			return decodeText(rest, b.of)
		}
	}
	m := declaredEncoding.FindSubmatch(text[:min(len(text), 200)])
	if m == nil {
		return text, nil
	}
	name := strings.ToLower(string(m[1]))
	if of, known := charsets[name]; known {
		return decodeText(text, of)
	}
	if strings.HasPrefix(name, "utf-16") {
		return nil, invalidError("The descriptor says that it is in %s, but has no byte order mark. Save the descriptor in UTF-8.", m[1])
	}
	return nil, invalidError("The descriptor is in the character encoding %s. UTF-8, UTF-16, ISO-8859-1 and Windows-1252 are read: save the descriptor in UTF-8.", m[1])
}

func decodeText(text []byte, from encoding.Encoding) ([]byte, error) {
	out, err := from.NewDecoder().Bytes(text)
	if err != nil {
		return nil, errors.Join(invalidError("The descriptor's text is invalid in its character encoding. Save the descriptor in UTF-8."), err)
	}
	return out, nil
}
