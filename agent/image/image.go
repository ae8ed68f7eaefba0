// Package image reads what a disk image says of itself, without opening it as QEMU would: tools that open an image follow what it
// refers to, which may be any file of the host. Nothing here trusts a byte of it, and every read is bounded.
package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"quantix/internal/fleet"
)

// Facts are what an image's own bytes say.
type Facts struct {
	Format    string // "qcow2", "raw" for all that has no known magic, or a foreign format's name
	Size      int64  // as a guest sees it; of raw: the file's
	RefersTo  string // what it refers to outside itself, in words; empty: it is self-contained
	Encrypted bool
	Disc      bool   // it has a volume descriptor of ISO 9660 or UDF at sector 16
	Fault     string // what its header says that no sound image does, as a clause; empty: nothing
	Content   string // of raw: what it is instead of a disk, as "a web page"; empty: it may well be a disk
	Packed    bool   // Content is a packed file
}

// headBytes hold every magic and the whole head of a qcow2 image but for long header extensions.
const headBytes = 64 << 10

// ErrCutOff is the fault of a header that ends before it is whole.
var ErrCutOff = errors.New("the qcow2 header is cut off")

// Read reads the facts of an image of size bytes. Where only its head can be had, deep is false: then tables are not looked at, which a
// running guest may be changing.
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

// Clonable refuses what must not be copied as a disk, in a sentence about the volume.
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

// Bootable is Clonable for what a VM is made from: a packed file or a web page is copied for nothing.
func (f Facts) Bootable(volume string) error {
	if err := f.Clonable(volume); err != nil {
		return err
	}
	return f.disk("The image "+volume, fleet.Conflict)
}

// Unsound says why the file is no image to make anything from, as a sentence; empty: nothing speaks against it.
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

// Medium refuses what is no disc for a drive.
func (f Facts) Medium(volume string) error {
	if f.Format != "raw" || !f.Disc {
		return fleet.Errorf(fleet.Conflict, "The volume %s is no ISO image: it has neither an ISO 9660 nor a UDF volume descriptor. Choose another.", volume)
	}
	return nil
}

// asOther is what to do with a disk in another product's format.
const asOther = "A VMDK, VHDX, VHD or VDI disk is taken under a name with that ending, and then converted in its pool."

// Fetched is Came for a download.
func (f Facts) Fetched(iso bool) error { return f.Came("What was downloaded", iso) }

// Came refuses what came from elsewhere and is no image that a VM can have. what: how people call it. iso: it is to be a disc.
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

// faultf is the fault of a header, as a clause.
func faultf(format string, args ...any) string { return fmt.Sprintf(format, args...) }
