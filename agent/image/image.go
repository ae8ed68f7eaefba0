// Package image inspects disk images without opening them like QEMU: tools that open an image follow its references,
// which may name any file of the host. It trusts no byte of an image, and every read is bounded.
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
	Format    string // "qcow2", "raw" for everything without a known magic, or a foreign format's name
	Size      int64  // the virtual size; of raw: the file's
	RefersTo  string // a description of the outside file that it refers to; empty: self-contained
	Encrypted bool
	Disc      bool   // it has an ISO 9660 or UDF volume descriptor at sector 16
	Fault     string // an invalid property of the header, as a clause; empty: none
	Content   string // of raw: its kind if it is no disk, as "a web page"; empty: it may be a disk
	Packed    bool   // Content is a compressed or archive file
}

// headBytes is enough for every magic and the header of a qcow2 image, except for long header extensions.
const headBytes = 64 << 10

// ErrCutOff is the error of an incomplete header.
var ErrCutOff = errors.New("the qcow2 header is cut off")

// Read reads the facts of an image of size bytes. deep also checks the tables; it must be false while a running guest
// may change them.
func Read(r io.ReaderAt, size int64, deep bool) (Facts, error) {
	head := make([]byte, min(max(size, 0), headBytes))
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Facts{}, err
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte(qcowMagic)) {
		return readQcow2(r, head, size, deep)
	}
	if format := foreign(head); format != "" {
		return Facts{Format: format}, nil
	}
	f := Facts{Format: "raw", Size: size}
	if f.Disc, err = readDisc(r); err != nil {
		return f, err
	}
	if !deep {
		return f, nil
	}
	f.Content, f.Packed = contentOf(head)
	if f.Content == "" && size >= 512 {
		tail := make([]byte, 512)
		if _, err := r.ReadAt(tail, size-512); err != nil && !errors.Is(err, io.EOF) {
			return f, err
		}
		f.Content = trailerOf(tail)
	}
	return f, nil
}

// Clonable refuses images that must not be copied as a disk; the error is a sentence about the volume.
func (f Facts) Clonable(volume string) error {
	switch {
	case f.RefersTo != "":
		return fleet.Errorf(fleet.Conflict, "The image %s refers to %s, so it is not cloned. Choose one that has all in one file.", volume, f.RefersTo)
	case f.Encrypted:
		return fleet.Errorf(fleet.Conflict, "The image %s is encrypted, so it cannot be cloned. Choose an image that is not.", volume)
	case f.Format != "qcow2" && f.Format != "raw":
		return fleet.Errorf(fleet.Conflict, "The image %s has the format %s; only qcow2 and raw images are cloned. Convert it to qcow2 first, in its pool.", volume, f.Format)
	case f.Fault != "":
		return fleet.Errorf(fleet.Conflict, "The image %s is not sound: %s. Put a whole one in its place.", volume, f.Fault)
	}
	return nil
}

// Bootable is Clonable for a VM's image: it also refuses compressed files and web pages.
func (f Facts) Bootable(volume string) error {
	if err := f.Clonable(volume); err != nil {
		return err
	}
	return f.disk("The image "+volume, fleet.Conflict)
}

// Unsound returns a sentence with the reason why the file is no valid image; empty: none is known.
func (f Facts) Unsound() string {
	switch {
	case f.RefersTo != "":
		return "It refers to " + f.RefersTo + ", so it is no whole image. Put one in its place that stands alone."
	case f.Encrypted || f.Format == "luks":
		return "It is encrypted. Only images that are not encrypted are taken."
	case f.Fault != "":
		return "It is not sound: " + f.Fault + ". Put a whole one in its place."
	}
	if err := f.disk("It", fleet.Conflict); err != nil {
		return err.Error()
	}
	return ""
}

// Medium refuses files that are no ISO image.
func (f Facts) Medium(volume string) error {
	if f.Format != "raw" || !f.Disc {
		return fleet.Errorf(fleet.Conflict, "The volume %s is no ISO image: it has neither an ISO 9660 nor a UDF volume descriptor. Choose another.", volume)
	}
	return nil
}

// asOther is the advice for a disk in another product's format.
const asOther = "A VMDK, VHDX, VHD or VDI disk is taken under a name with that ending, and then converted in its pool."

// Fetched is Came for a download.
func (f Facts) Fetched(iso bool) error { return f.Came("What was downloaded", iso) }

// Came refuses a received file that is no usable image. In the error, its name is what. iso: it must be an ISO image.
func (f Facts) Came(what string, iso bool) error {
	refuse := func(format string, args ...any) error {
		return fleet.Errorf(fleet.Invalid, what+" "+format, args...)
	}
	switch {
	case f.RefersTo != "":
		return refuse("is a qcow2 image that refers to %s, which is not there. Choose one that has all in one file.", f.RefersTo)
	case f.Encrypted:
		return refuse("is an encrypted %s image. Only images that are not encrypted are taken.", f.Format)
	case f.Format == "luks":
		return refuse("is an encrypted LUKS image. Only images that are not encrypted are taken.")
	case f.Format != "qcow2" && f.Format != "raw":
		return refuse("begins as a %s image does; only qcow2, raw and ISO images are taken so. "+asOther, f.Format)
	case f.Fault != "":
		return refuse("is not sound: %s.", f.Fault)
	case iso && (f.Format != "raw" || !f.Disc) && f.Content == "":
		return refuse("is no ISO image: it has neither an ISO 9660 nor a UDF volume descriptor at sector 16. Choose a name without .iso if it is a disk.")
	}
	return f.disk(what, fleet.Invalid)
}

func (f Facts) disk(what string, code fleet.Code) error {
	switch {
	case f.Packed:
		return fleet.Errorf(code, "%s is %s, not an image. Unpack it first, and take the image that is in it.", what, f.Content)
	case f.Content == fixedVHD || f.Content == dmg:
		return fleet.Errorf(code, "%s ends as %s does; only qcow2, raw and ISO images are taken so. "+asOther, what, f.Content)
	case f.Content != "":
		return fleet.Errorf(code, "%s is %s, not an image.", what, f.Content)
	case f.Format == "raw" && f.Size == 0:
		return fleet.Errorf(code, "%s is empty, so it is no image.", what)
	}
	return nil
}

// faultf formats the fault of a header as a clause.
func faultf(format string, args ...any) string { return fmt.Sprintf(format, args...) }
