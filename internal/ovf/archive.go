package ovf

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // old manifests use SHA-1, which detects damage but proves no origin
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// File is the place of a file in an archive.
type File struct {
	Name   string
	Offset int64 // offset of the file's first byte in the archive
	Size   int64
}

// Archive is the content of an OVA.
type Archive struct {
	Descriptor  File
	Files       []File     // all files except descriptor, manifest and certificate
	Sums        []Checksum // checksums in the manifest
	Certificate bool       // the archive is signed
}

// Checksum is the checksum of a file in the manifest.
type Checksum struct{ Algorithm, Name, Hex string }

// File returns the archive's file of that name.
func (a Archive) File(name string) (File, bool) {
	if i := fileIndex(a.Files, name); i >= 0 {
		return a.Files[i], true
	}
	return File{}, false
}

// fileIndex returns the index of the file with this name, as written or as an escaped URI; -1: there is none.
func fileIndex(files []File, name string) int {
	name = strings.TrimPrefix(name, "./")
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == name })
	if unescaped, err := url.PathUnescape(name); i < 0 && err == nil {
		i = slices.IndexFunc(files, func(f File) bool { return f.Name == unescaped })
	}
	return i
}

// ChecksumAlgorithm returns the checksum algorithm of the manifest; empty: the archive has no manifest.
func (a Archive) ChecksumAlgorithm() string {
	if len(a.Sums) == 0 {
		return ""
	}
	return a.Sums[0].Algorithm
}

// checkFileName returns an error unless name is a plain file name without a directory.
func checkFileName(name string) error {
	switch {
	case name == "" || len(name) > 200 || cleanLine(name) != name:
		return invalidError("The archive has a file whose name is empty, too long, or contains characters that cannot be seen.")
	case path.Base(name) != name || name == "." || name == ".." || strings.ContainsAny(name, `/\`) || name[0] == '.' || name[0] == '-':
		return invalidError("The archive has a file named %q, which would lie outside of it. Only plain names are accepted.", name)
	}
	return nil
}

// harmlessPAX are PAX records that do not change a file's content or type.
var harmlessPAX = []string{"size", "path", "mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment"}

// ReadArchive lists the files of a tar archive of size bytes. The descriptor must be first, as the format requires,
// and all entries must be plain files.
func ReadArchive(r io.ReaderAt, size int64) (Archive, error) {
	var out Archive
	at := io.NewSectionReader(r, 0, size)
	t := tar.NewReader(at)
	var manifest *File
	names := map[string]bool{}
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, invalidError("The file is not a complete tar archive: %s.", cleanLine(err.Error()))
		}
		if n >= MaxFiles {
			return out, invalidError("The archive has more than %d files.", MaxFiles)
		}
		// "tar -c ." adds the directory itself as an entry, which does not count as a file.
		if h.Typeflag == tar.TypeDir && path.Clean(h.Name) == "." && !names["."] {
			names["."] = true
			n--
			continue
		}
		h.Name = strings.TrimPrefix(h.Name, "./")
		if err := checkFileName(h.Name); err != nil {
			return out, err
		}
		sparse := h.Typeflag == tar.TypeGNUSparse
		for key := range h.PAXRecords {
			sparse = sparse || strings.HasPrefix(key, "GNU.sparse.")
			if !sparse && !slices.Contains(harmlessPAX, key) {
				return out, invalidError("The archive describes %s with the unknown record %q.", h.Name, cleanLine(key))
			}
		}
		offset, err := at.Seek(0, io.SeekCurrent)
		switch {
		case err != nil:
			return out, err
		case sparse:
			return out, invalidError("The archive contains %s as a sparse file. Pack the archive again with tar --format=ustar.", h.Name)
		case h.Typeflag != tar.TypeReg:
			return out, invalidError("The archive contains %s, which is a link, a directory or a device. Only plain files are accepted.", h.Name)
		case h.Size < 0 || offset > size || h.Size > size-offset:
			return out, invalidError("The archive ends before the end of %s, so it is incomplete.", h.Name)
		case names[strings.ToLower(h.Name)]:
			return out, invalidError("The archive contains %s twice.", h.Name)
		}
		names[strings.ToLower(h.Name)] = true
		f := File{Name: h.Name, Offset: offset, Size: h.Size}
		switch ext := strings.ToLower(path.Ext(h.Name)); {
		case n == 0 && ext != ".ovf":
			return out, invalidError("The archive does not begin with its descriptor, a file that ends in .ovf, but with %s. Pack the archive again with the descriptor first.", h.Name)
		case n == 0:
			out.Descriptor = f
		case ext == ".ovf":
			return out, invalidError("The archive has two descriptors.")
		case ext == ".mf" && manifest != nil:
			return out, invalidError("The archive has two manifests.")
		case ext == ".mf":
			manifest = &f
		case ext == ".cert":
			out.Certificate = true
		default:
			out.Files = append(out.Files, f)
		}
	}
	if out.Descriptor.Name == "" {
		return out, invalidError("The archive is empty.")
	}
	if out.Descriptor.Size > MaxDescriptor {
		return out, invalidError("The descriptor has more than %d MiB.", MaxDescriptor>>20)
	}
	if manifest == nil {
		return out, nil
	}
	text, err := out.readSmallFile(r, *manifest, MaxManifest)
	if err != nil {
		return out, err
	}
	out.Sums, err = out.parseManifest(manifest.Name, text)
	return out, err
}

// readSmallFile reads a file of the archive that has at most limit bytes.
func (a Archive) readSmallFile(r io.ReaderAt, f File, limit int64) ([]byte, error) {
	if f.Size > limit {
		return nil, invalidError("%s has more than %d KiB.", f.Name, limit>>10)
	}
	text := make([]byte, f.Size)
	if _, err := r.ReadAt(text, f.Offset); err != nil && (f.Size > 0 || !errors.Is(err, io.EOF)) {
		return nil, err
	}
	return text, nil
}

var sumForm = regexp.MustCompile(`^(SHA1|SHA256|SHA512) ?\((.+)\) ?= ?([0-9A-Fa-f]+)$`)

// parseManifest parses the checksums in the manifest. manifestName is the manifest's own file name. Every checksum must
// have a file in the archive, and every other file a checksum.
func (a Archive) parseManifest(manifestName string, text []byte) (out []Checksum, err error) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		m := sumForm.FindSubmatch(line)
		if m == nil || len(m[3]) != 2*newHash(string(m[1])).Size() {
			return nil, invalidError("The manifest has the line %q, which is no checksum by SHA-1, SHA-256 or SHA-512.", cleanLine(string(line[:min(len(line), 100)])))
		}
		s := Checksum{string(m[1]), string(m[2]), strings.ToLower(string(m[3]))}
		all := append([]File{a.Descriptor, {Name: manifestName}}, a.Files...)
		i := fileIndex(all, s.Name)
		if i >= 0 {
			s.Name = all[i].Name
		}
		switch {
		case s.Name == manifestName: // some tools list the manifest itself, whose checksum is meaningless
			continue
		case i < 0:
			return nil, invalidError("The manifest has a checksum of %q, which is not in the archive. The archive is incomplete.", cleanLine(s.Name))
		case slices.ContainsFunc(out, func(o Checksum) bool { return o.Name == s.Name }):
			return nil, invalidError("The manifest has two checksums of %s.", s.Name)
		}
		out = append(out, s)
	}
	for _, f := range append([]File{a.Descriptor}, a.Files...) {
		if !slices.ContainsFunc(out, func(s Checksum) bool { return s.Name == f.Name }) {
			return nil, invalidError("The manifest has no checksum of %s, so that file cannot be verified.", f.Name)
		}
	}
	return out, nil
}

func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case "SHA1":
		return sha1.New() //nolint:gosec // see above
	case "SHA512":
		return sha512.New()
	}
	return sha256.New()
}

// Verify compares the file with its checksum in the manifest. If the archive has no manifest, it reads nothing. It
// calls progress with the number of bytes read so far.
func (a Archive) Verify(ctx context.Context, r io.ReaderAt, f File, progress func(done int64)) error {
	i := slices.IndexFunc(a.Sums, func(s Checksum) bool { return s.Name == f.Name })
	if i < 0 {
		return nil
	}
	sum, from := newHash(a.Sums[i].Algorithm), io.NewSectionReader(r, f.Offset, f.Size)
	piece := make([]byte, 1<<20)
	for done := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.Read(piece)
		sum.Write(piece[:n])
		done += int64(n)
		progress(done)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != a.Sums[i].Hex {
		return invalidError("The %s of %s is %s, but its manifest says %s. The archive was damaged or changed: get the archive again.", a.Sums[i].Algorithm, f.Name, got, a.Sums[i].Hex)
	}
	return nil
}
