//go:build linux

package lab

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed guest
var guestFiles embed.FS

// recipeVersion is the version of the build. Raise it when the build changes but its files do not.
const recipeVersion = "2"

// guestDiskSize is larger than the boot image, which leaves free space, and is a round size for pages to show.
const guestDiskSize = "64M"

// GuestImage returns the images of a tiny Linux guest. If cacheDir does not contain them, GuestImage builds them from
// Debian's packages. Several processes may build at the same time. The build needs apt, dpkg-deb, xorriso and qemu-img,
// takes about ten seconds and installs nothing.
//
// The guest prints "Quantix guest ready" and runs a root shell on tty1 (VGA) and ttyS0. It gets an address by DHCP on
// every virtio NIC, runs the QEMU guest agent and powers off when the ACPI power button is pressed. It needs 128 MiB.
//
// Copy Disk or create an overlay over it before a guest writes to it. For a direct boot use the kernel arguments
// "console=ttyS0 console=tty1 quiet no_timer_check".
func GuestImage(ctx context.Context, cacheDir string) (GuestFiles, error) {
	files, err := guestImage(ctx, cacheDir)
	if err != nil {
		return GuestFiles{}, fmt.Errorf("build the guest image: %w", err)
	}
	return files, nil
}

func guestImage(ctx context.Context, cacheDir string) (GuestFiles, error) {
	key, err := guestImageCacheKey()
	if err != nil {
		return GuestFiles{}, err
	}
	cacheDir, err = filepath.Abs(cacheDir)
	if err != nil {
		return GuestFiles{}, err
	}
	dir := filepath.Join(cacheDir, "guest-"+key)
	files := guestFilesIn(dir)
	if fileExists(dir) {
		return files, nil
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return GuestFiles{}, err
	}
	lock, err := lockFile(ctx, filepath.Join(cacheDir, "guest.lock"))
	if err != nil {
		return GuestFiles{}, err
	}
	defer lock.Close()
	if fileExists(dir) {
		return files, nil
	}
	work, err := os.MkdirTemp(cacheDir, ".guest-*")
	if err != nil {
		return GuestFiles{}, err
	}
	defer os.RemoveAll(work)
	if err := buildGuestImages(ctx, work); err != nil {
		return GuestFiles{}, err
	}
	return files, os.Rename(filepath.Join(work, "out"), dir)
}

func guestFilesIn(dir string) GuestFiles {
	at := func(name string) string { return filepath.Join(dir, name) }
	return GuestFiles{Kernel: at("vmlinuz"), Initrd: at("initrd.img"), ISO: at("guest.iso"), Disk: at("guest.qcow2")}
}

// guestImageCacheKey returns the name of the cache entry: a hash of everything that this repository adds to the guest.
func guestImageCacheKey() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, recipeVersion, guestPackages, guestModules, storageModules)
	err := fs.WalkDir(guestFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := guestFiles.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

// buildGuestImages builds the images in work/out.
func buildGuestImages(ctx context.Context, work string) error {
	root, out, iso := filepath.Join(work, "root"), filepath.Join(work, "out"), filepath.Join(work, "iso")
	for _, dir := range []string{root, out, iso} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unpackPackages(ctx, work, root); err != nil {
		return err
	}
	images := guestFilesIn(out)
	kernel, err := singleFile(root, "boot/vmlinuz-*")
	if err != nil {
		return err
	}
	if err := copyFile(kernel, images.Kernel); err != nil {
		return err
	}
	if err := writeInitramfs(root, images.Initrd); err != nil {
		return fmt.Errorf("pack the initramfs: %w", err)
	}
	config, err := guestFiles.ReadFile("guest/isolinux.cfg")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(iso, "isolinux.cfg"), config, 0o644); err != nil {
		return err
	}
	for to, from := range map[string]string{
		"vmlinuz":      images.Kernel,
		"initrd.img":   images.Initrd,
		"isolinux.bin": filepath.Join(root, "usr/lib/ISOLINUX/isolinux.bin"),
		"ldlinux.c32":  filepath.Join(root, "usr/lib/syslinux/modules/bios/ldlinux.c32"),
	} {
		if err := copyFile(from, filepath.Join(iso, to)); err != nil {
			return err
		}
	}
	// An isohybrid image boots both as a CD-ROM and as a disk.
	if _, err := runOutput(ctx, "xorriso", "-as", "mkisofs", "-quiet", "-o", images.ISO, "-V", "QUANTIX_GUEST", "-r",
		"-isohybrid-mbr", filepath.Join(root, "usr/lib/ISOLINUX/isohdpfx.bin"), "-c", "boot.cat", "-b", "isolinux.bin",
		"-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", iso); err != nil {
		return err
	}
	if _, err := runOutput(ctx, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-o", "compat=1.1", images.ISO, images.Disk); err != nil {
		return err
	}
	_, err = runOutput(ctx, "qemu-img", "resize", "-q", "-f", "qcow2", images.Disk, guestDiskSize)
	return err
}

// singleFile returns the only file below root that matches pattern.
func singleFile(root, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the packages contain %d files that match %s, want one", len(found), pattern)
	}
	return found[0], nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// runOutput runs a program of the machine and returns its output. Its error contains the program's error text.
func runOutput(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, programPath(name), args...)
	cmd.Env = commandEnvironment([]string{"LC_ALL=C"})
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not installed: run `quantix doctor --install lab`", name)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], errors.Join(ctx.Err(), err), strings.TrimSpace(errOut.String()))
	}
	return string(out), nil
}

// lockFile waits for the lock on the named file. Closing the file releases the lock.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("wait for %s: %w", name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return file, nil
}
