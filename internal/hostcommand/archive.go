package hostcommand

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"quantix/internal/fleet"
)

// summaryFile is the archive's file with its Summary as JSON.
const (
	summaryFile     = "summary.json"
	maxSummaryBytes = 256 << 10
	maxReason       = 1 << 10
	maxTitle        = 200
)

// errArchive is the reason for which the portal refuses an archive.
var errArchive = errors.New("the archive is not as agents make it")

// WriteArchive returns a zip of the items' texts and their summary. It fails if the result has more than MaxArchive bytes.
func WriteArchive(items []Item, texts []string, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	add := func(name string, content []byte) error {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at})
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}
	summary, err := json.MarshalIndent(Summary{Items: items}, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := add(summaryFile, summary); err != nil {
		return nil, err
	}
	for i, item := range items {
		if err := add(item.FileName(), []byte(texts[i])); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if buf.Len() > MaxArchive {
		return nil, fmt.Errorf("the archive has %s, more than %s", fleet.FormatBytes(int64(buf.Len())), fleet.FormatBytes(MaxArchive))
	}
	return buf.Bytes(), nil
}

// CheckArchive reads the summary of an archive from a host, and checks that each item is in the archive and within its
// bounds. It decompresses at most MaxItem bytes of each file.
func CheckArchive(archive []byte) (Summary, error) {
	var out Summary
	z, err := openArchive(archive)
	if err != nil {
		return out, err
	}
	text, err := readFile(z, summaryFile, maxSummaryBytes)
	if err != nil {
		return out, err
	}
	if json.Unmarshal([]byte(text), &out) != nil || len(out.Items) == 0 || len(out.Items) > MaxItems || len(z.File) != len(out.Items)+1 {
		return Summary{}, errArchive
	}
	seen := map[string]bool{}
	for n := range out.Items {
		i := &out.Items[n]
		if !isItemName(i.Name) || seen[i.Name] || !i.Status.IsKnown() {
			return Summary{}, errArchive
		}
		seen[i.Name] = true
		text, err := readFile(z, i.FileName(), MaxItem)
		if err != nil {
			return Summary{}, err
		}
		i.Title, i.Reason, i.Bytes = oneLine(i.Title, maxTitle), oneLine(i.Reason, maxReason), len(text)
		i.Seconds = min(max(i.Seconds, 0), 24*3600)
	}
	return out, nil
}

// ItemText returns the text of an item with control characters escaped, except line breaks and tabs.
func ItemText(archive []byte, name string) (string, error) {
	z, err := openArchive(archive)
	if err != nil {
		return "", err
	}
	if !isItemName(name) {
		return "", errArchive
	}
	text, err := readFile(z, Item{Name: name}.FileName(), MaxItem)
	return EscapeControls(text), err
}

func openArchive(archive []byte) (*zip.Reader, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil || len(z.File) > MaxItems+1 {
		return nil, errArchive
	}
	return z, nil
}

// readFile returns the content of a file with at most limit bytes.
func readFile(z *zip.Reader, name string, limit int64) (string, error) {
	for _, f := range z.File {
		if f.Name != name {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return "", errArchive
		}
		defer r.Close()
		content, err := io.ReadAll(io.LimitReader(r, limit+1))
		if err != nil || int64(len(content)) > limit {
			return "", errArchive
		}
		return string(content), nil
	}
	return "", errArchive
}

// isItemName reports whether an item may have the name, which is also part of a file's name.
func isItemName(name string) bool {
	return fleet.IsDiagnosticName(strings.TrimPrefix(name, SitePrefix))
}

// oneLine makes text from a host one line of at most limit bytes.
func oneLine(text string, limit int) string {
	text = strings.ReplaceAll(EscapeControls(text), "\n", " ")
	for len(text) > limit {
		_, n := utf8.DecodeLastRuneInString(text[:limit+1])
		text = text[:limit+1-max(n, 1)]
	}
	return text
}

// EscapeControls replaces characters that terminals or browsers do not show as text, except line breaks and tabs, by their
// Go escape sequences. Invalid UTF-8 becomes U+FFFD.
func EscapeControls(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\uFFFD")
	if strings.IndexFunc(text, isHidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !isHidden(r):
			b.WriteRune(r)
		case r <= 0xFF:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isHidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}
