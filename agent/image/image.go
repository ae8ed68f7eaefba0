// Package image inspects disk images without opening them as QEMU does: tools that open an image follow its references,
// which may name any file of the host. The package trusts no byte of an image, and bounds every read.
package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"quantix/internal/fleet"
)

// Facts are the properties stored in an image.
type Facts struct {
	Format         string // "qcow2", the name of another product's format, or "raw" for everything without a known magic
	Size           int64  // the virtual size in bytes; of raw: the file's size
	RefersTo       string // description of another file that the image needs; empty: self-contained
	Encrypted      bool
	IsDisc         bool   // the file has an ISO 9660 or UDF volume descriptor at sector 16
	HeaderFault    string // an invalid property of the header, as a clause; empty: none
	NonDiskContent string // raw only: the kind of the content if it is certainly not a disk, such as "a web page"
	IsArchive      bool   // NonDiskContent describes an archive or a compressed file
}

// headBytes is enough for every magic and the header of a qcow2 image, without long header extensions.
const headBytes = 64 << 10

// ErrHeaderTruncated is the error of a truncated header.
var ErrHeaderTruncated = errors.New("the qcow2 header is cut off")

// ReadFacts reads the facts of an image of size bytes. deep also checks the tables. deep must be false while a running
// guest may change the tables.
func ReadFacts(r io.ReaderAt, size int64, deep bool) (Facts, error) {
	head := make([]byte, min(max(size, 0), headBytes))
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Facts{}, err
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte(qcowMagic)) {
		return readQcow2(r, head, size, deep)
	}
	if format := formatByMagic(head); format != "" {
		return Facts{Format: format}, nil
	}
	f := Facts{Format: "raw", Size: size}
	if f.IsDisc, err = hasDiscDescriptor(r); err != nil {
		return f, err
	}
	if !deep {
		return f, nil
	}
	f.NonDiskContent, f.IsArchive = nonDiskContent(head)
	if f.NonDiskContent == "" && size >= 512 {
		tail := make([]byte, 512)
		if _, err := r.ReadAt(tail, size-512); err != nil && !errors.Is(err, io.EOF) {
			return f, err
		}
		f.NonDiskContent = formatByTrailer(tail)
	}
	return f, nil
}

// CheckClonable returns an error, a sentence that names volume, if the image must not be copied as a disk.
func (f Facts) CheckClonable(volume string) error {
	switch {
	case f.RefersTo != "":
		return fleet.Errorf(fleet.Conflict, "The image %s refers to %s, so the image cannot be cloned. Choose a self-contained image.", volume, f.RefersTo)
	case f.Encrypted:
		return fleet.Errorf(fleet.Conflict, "The image %s is encrypted, so the image cannot be cloned. Choose an unencrypted image.", volume)
	case f.Format != "qcow2" && f.Format != "raw":
		return fleet.Errorf(fleet.Conflict, "The image %s has the format %s; only qcow2 and raw images can be cloned. Convert the image to qcow2 in its pool first.", volume, f.Format)
	case f.HeaderFault != "":
		return fleet.Errorf(fleet.Conflict, "The image %s is invalid: %s. Replace it with a complete image.", volume, f.HeaderFault)
	}
	return nil
}

// CheckBootable is CheckClonable for a VM's image: it also refuses compressed files and web pages.
func (f Facts) CheckBootable(volume string) error {
	if err := f.CheckClonable(volume); err != nil {
		return err
	}
	return f.checkDisk("The image "+volume, fleet.Conflict)
}

// InvalidReason returns a sentence with the reason why the file is not a valid image; empty: no reason is known.
func (f Facts) InvalidReason() string {
	switch {
	case f.RefersTo != "":
		return "The file refers to " + f.RefersTo + ", so it is not a complete image. Replace it with a self-contained image."
	case f.Encrypted || f.Format == "luks":
		return "The file is encrypted. Only unencrypted images are accepted."
	case f.HeaderFault != "":
		return "The file is invalid: " + f.HeaderFault + ". Replace it with a complete image."
	}
	if err := f.checkDisk("It", fleet.Conflict); err != nil {
		return err.Error()
	}
	return ""
}

// CheckISO returns an error, a sentence that names volume, if the file is not an ISO image.
func (f Facts) CheckISO(volume string) error {
	if f.Format != "raw" || !f.IsDisc {
		return fleet.Errorf(fleet.Conflict, "The volume %s is not an ISO image: the volume has neither an ISO 9660 nor a UDF volume descriptor. Choose another volume.", volume)
	}
	return nil
}

// otherFormatAdvice is advice for a disk in another product's format.
const otherFormatAdvice = "Give a VMDK, VHDX, VHD or VDI disk a name with that ending, and then convert it in its pool."

// CheckDownloaded is CheckReceived for a download.
func (f Facts) CheckDownloaded(iso bool) error { return f.CheckReceived("What was downloaded", iso) }

// CheckReceived returns an error if a received file is not a usable image. subject names the file in the error, such as
// "What was downloaded". iso: the file must be an ISO image.
func (f Facts) CheckReceived(subject string, iso bool) error {
	refuse := func(format string, args ...any) error {
		return fleet.Errorf(fleet.Invalid, subject+" "+format, args...)
	}
	switch {
	case f.RefersTo != "":
		return refuse("is a qcow2 image that refers to %s, which is missing. Choose a self-contained image.", f.RefersTo)
	case f.Encrypted:
		return refuse("is an encrypted %s image. Only unencrypted images are accepted.", f.Format)
	case f.Format == "luks":
		return refuse("is an encrypted LUKS image. Only unencrypted images are accepted.")
	case f.Format != "qcow2" && f.Format != "raw":
		return refuse("begins like a %s image; under its name only qcow2, raw and ISO images are accepted. "+otherFormatAdvice, f.Format)
	case f.HeaderFault != "":
		return refuse("is invalid: %s.", f.HeaderFault)
	case iso && (f.Format != "raw" || !f.IsDisc) && f.NonDiskContent == "":
		return refuse("is not an ISO image: it has neither an ISO 9660 nor a UDF volume descriptor at sector 16. Choose a name without .iso if it is a disk.")
	}
	return f.checkDisk(subject, fleet.Invalid)
}

func (f Facts) checkDisk(what string, code fleet.ErrorCode) error {
	switch {
	case f.IsArchive:
		return fleet.Errorf(code, "%s is %s, not an image. Unpack it first, and use the unpacked image.", what, f.NonDiskContent)
	case f.NonDiskContent == fixedVHDText || f.NonDiskContent == dmgText:
		return fleet.Errorf(code, "%s ends like %s; under its name only qcow2, raw and ISO images are accepted. "+otherFormatAdvice, what, f.NonDiskContent)
	case f.NonDiskContent != "":
		return fleet.Errorf(code, "%s is %s, not an image.", what, f.NonDiskContent)
	case f.Format == "raw" && f.Size == 0:
		return fleet.Errorf(code, "%s is empty, so it is not an image.", what)
	}
	return nil
}

// describeFault formats an invalid property of a header as a clause.
func describeFault(format string, args ...any) string { return fmt.Sprintf(format, args...) }
