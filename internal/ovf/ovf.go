// Package ovf reads and writes VMs in DMTF's Open Virtualization Format: a descriptor (OVF 1.x and 2.x), and the tar
// archive (OVA) of descriptor, disks and manifest. The input is untrusted: every size is bounded, references must
// stay within the archive, and no disk is opened.
package ovf

import (
	"io"
	"strings"
	"unicode"

	"quantix/internal/fleet"
)

// Limits of an archive.
const (
	MaxDescriptor = 4 << 20 // bytes of a descriptor
	MaxManifest   = 1 << 20 // bytes of a manifest
	MaxFiles      = 64      // files in an archive
	maxDepth      = 32      // nesting of elements
	maxElements   = 20000
	maxAttributes = 64 // attributes of one element
)

func invalidError(format string, args ...any) error {
	return fleet.Errorf(fleet.Invalid, format, args...)
}

// Read reads an archive of size bytes and returns its VM and its files. It reads only the bytes of the descriptor and
// the manifest.
func Read(r io.ReaderAt, size int64) (fleet.Appliance, Archive, error) {
	a, err := ReadArchive(r, size)
	if err != nil {
		return fleet.Appliance{}, a, err
	}
	text, err := a.readSmallFile(r, a.Descriptor, MaxDescriptor)
	if err != nil {
		return fleet.Appliance{}, a, err
	}
	app, err := Parse(text, a.Files)
	if err != nil {
		return app, a, err
	}
	if len(a.Sums) > 0 {
		app.ChecksumAlgorithm = a.ChecksumAlgorithm()
	}
	if a.Certificate {
		app.NotImported = append(app.NotImported, "Its signature: the origin of the archive is not verified.")
	}
	return app, a, nil
}

// cleanLine returns a text from the descriptor as one line of limited length, without invisible characters.
func cleanLine(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, s)), " ")
	if len(s) > fleet.MaxApplianceText {
		s = strings.ToValidUTF8(s[:fleet.MaxApplianceText], "")
	}
	return s
}
