package image

import (
	"context"
	"errors"
	"io"

	"quantix/internal/fleet"
	"quantix/internal/ovf"
)

// ReadAppliance parses a file with the name of an OVA or OVF appliance. It returns nil for other names. Errors in the
// file's content are in the appliance's Error.
func ReadAppliance(r io.ReaderAt, size int64, name string) (*fleet.Appliance, error) {
	kind := fleet.ApplianceFormatByName(name)
	if kind == "" {
		return nil, nil
	}
	a, err := readAppliance(r, size, name, kind)
	if refused, ok := errors.AsType[*fleet.Error](err); ok && refused.Code == fleet.Invalid {
		a.Error, err = refused.Message, nil
	}
	return &a, err
}

func readAppliance(r io.ReaderAt, size int64, name, kind string) (fleet.Appliance, error) {
	if kind != fleet.FormatOVA {
		f, err := inspectDisk(r, size, name, kind)
		return fleet.Appliance{Disks: []fleet.ApplianceDisk{{Format: f.Format, SizeBytes: f.Size, FileBytes: size}}}, err
	}
	if f, err := ReadFacts(r, min(size, headBytes), false); err != nil || f.Format != "raw" {
		return fleet.Appliance{}, errors.Join(err, fleet.Errorf(fleet.Invalid, "The file is a disk, not a tar archive."))
	}
	a, files, err := ovf.Read(r, size)
	if err != nil {
		return a, err
	}
	for i := range a.Disks {
		d := &a.Disks[i]
		if d.Member == "" {
			continue
		}
		file, _ := files.File(d.Member)
		f, err := inspectDisk(io.NewSectionReader(r, file.Offset, file.Size), file.Size, d.Member, d.Format)
		if err != nil {
			return a, err
		}
		d.SizeBytes = f.Size // the disk's header is more reliable than the descriptor
	}
	return a, nil
}

func inspectDisk(r io.ReaderAt, size int64, name, claimed string) (Facts, error) {
	f, err := ReadConvertibleFacts(r, size)
	if err != nil {
		return f, explainTruncated(name, err)
	}
	return f, f.CheckConvertible(name, claimed)
}

// explainTruncated explains the error of a truncated header, and returns any other error unchanged.
func explainTruncated(name string, err error) error {
	if errors.Is(err, ErrHeaderTruncated) {
		return fleet.Errorf(fleet.Invalid, "The disk %s is incomplete: %s.", name, err)
	}
	return err
}

// VerifyManifest reads all files of an OVA archive and compares their checksums with the manifest, if the archive has
// one. report receives the number of bytes read so far.
func VerifyManifest(ctx context.Context, r io.ReaderAt, size int64, report func(done int64)) error {
	_, files, err := ovf.Read(r, size)
	if err != nil {
		return err
	}
	before := int64(0)
	for _, f := range append([]ovf.File{files.Descriptor}, files.Files...) {
		if err := files.Verify(ctx, r, f, func(done int64) { report(before + done) }); err != nil {
			return err
		}
		before += f.Size
	}
	return nil
}

// FindMember returns the offset and length of a disk in an OVA archive, and the facts of the disk's header. With an
// empty member, the file is the disk.
func FindMember(r io.ReaderAt, size int64, name, member string) (at, length int64, f Facts, err error) {
	claimed := ""
	if member == "" {
		if kind := fleet.ApplianceFormatByName(name); kind != fleet.FormatOVA {
			claimed = kind
		}
		f, err = inspectDisk(r, size, name, claimed)
		return 0, size, f, err
	}
	a, files, err := ovf.Read(r, size)
	if err != nil {
		return 0, 0, f, err
	}
	for _, d := range a.Disks {
		if d.Member == member {
			file, _ := files.File(member)
			f, err = inspectDisk(io.NewSectionReader(r, file.Offset, file.Size), file.Size, member, d.Format)
			return file.Offset, file.Size, f, err
		}
	}
	return 0, 0, f, fleet.Errorf(fleet.Conflict, "The archive %s has no disk %s.", name, member)
}

// VerifyMemberChecksum compares one file of an OVA archive with the manifest, if the archive has one.
func VerifyMemberChecksum(ctx context.Context, r io.ReaderAt, size int64, member string, report func(done int64)) error {
	files, err := ovf.ReadArchive(r, size)
	if err != nil {
		return err
	}
	f, ok := files.File(member)
	if !ok {
		return fleet.Errorf(fleet.Conflict, "The archive has no file %s.", member)
	}
	return files.Verify(ctx, r, f, report)
}
