//go:build linux

package lab

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed cloud
var cloudFiles embed.FS

// grubPackages are the boot loaders that are put into the image, and what a FAT is made with; they are unpacked, not installed.
var grubPackages = []string{"grub-pc-bin", "grub-common", "libdevmapper1.02.1", "grub-efi-amd64-signed", "shim-signed", "mtools"}

// CloudImage returns a disk, in qcow2, of a Debian with cloud-init that starts by BIOS and by UEFI, with secure boot too, and asks for a login on its serial console. It is built from
// Debian's packages where cacheDir does not hold it yet, which takes a minute or two, and is safe from several processes at once. Copy it, or lay an
// overlay over it, before a guest writes to it. Its guest needs 512 MiB.
func CloudImage(ctx context.Context, cacheDir string) (string, error) {
	disk, err := cloudImage(ctx, cacheDir)
	if err != nil {
		return "", fmt.Errorf("make the cloud image: %w", err)
	}
	return disk, nil
}

func cloudImage(ctx context.Context, cacheDir string) (string, error) {
	key, err := cloudKey()
	if err != nil {
		return "", err
	}
	if cacheDir, err = filepath.Abs(cacheDir); err != nil {
		return "", err
	}
	dir := filepath.Join(cacheDir, "cloud-"+key)
	disk := filepath.Join(dir, "cloud.qcow2")
	if exists(dir) {
		return disk, nil
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", err
	}
	lock, err := lockFile(ctx, filepath.Join(cacheDir, "cloud.lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if exists(dir) {
		return disk, nil
	}
	work, err := os.MkdirTemp(cacheDir, ".cloud-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := buildCloud(ctx, work); err != nil {
		return "", err
	}
	return disk, os.Rename(filepath.Join(work, "out"), dir)
}

// cloudKey names the cache entry by all that Quantix puts into the image.
func cloudKey() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, grubPackages)
	err := fs.WalkDir(cloudFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := cloudFiles.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

// buildCloud makes the image in work/out.
func buildCloud(ctx context.Context, work string) error {
	out, grub, scripts := filepath.Join(work, "out"), filepath.Join(work, "grub"), filepath.Join(work, "scripts")
	for _, dir := range []string{out, grub, filepath.Join(work, "packages"), scripts} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unpackNamed(ctx, filepath.Join(work, "packages"), grub, grubPackages); err != nil {
		return err
	}
	files, err := fs.Sub(cloudFiles, "cloud")
	if err != nil {
		return err
	}
	if err := os.CopyFS(scripts, files); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program("bash"), filepath.Join(scripts, "build.sh"), work, filepath.Join(out, "cloud.qcow2"))
	cmd.Env = append(environment([]string{"LC_ALL=C"}), "TMPDIR="+work)
	if said, err := cmd.CombinedOutput(); err != nil {
		text := strings.TrimSpace(string(said))
		return fmt.Errorf("build it: %w: %s", err, text[max(0, len(text)-1000):])
	}
	return nil
}

// unpackNamed downloads packages into a directory, and unpacks them below root.
func unpackNamed(ctx context.Context, downloads, root string, names []string) error {
	download := func() error {
		cmd := exec.CommandContext(ctx, program("apt-get"), append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, names...)...)
		cmd.Dir, cmd.Env = downloads, environment([]string{"LC_ALL=C"})
		said, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("download %s: %w: %s", strings.Join(names, " "), err, strings.TrimSpace(string(said)))
		}
		return nil
	}
	if err := download(); err != nil {
		// A fresh machine has no package lists, and old lists name files that the mirrors no longer have.
		if _, uerr := output(ctx, "apt-get", "-q", "update"); uerr != nil {
			return fmt.Errorf("%w; and apt's package lists cannot be renewed: %w", err, uerr)
		}
		if err := download(); err != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(downloads, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := output(ctx, "dpkg-deb", "-x", deb, root); err != nil {
			return err
		}
	}
	return nil
}
