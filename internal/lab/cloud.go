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

// grubPackages are the packages of the image's boot loaders, and of the tools that create its FAT partition. They are
// unpacked, not installed.
var grubPackages = []string{"grub-pc-bin", "grub-common", "libdevmapper1.02.1", "grub-efi-amd64-signed", "shim-signed", "mtools"}

// CloudImage returns the path of a qcow2 disk of Debian with cloud-init. It boots by BIOS and by UEFI, also with secure
// boot, and has a login on its serial console. If cacheDir does not contain the image, CloudImage builds it from
// Debian's packages, which takes one or two minutes. Several processes may build at the same time. Copy the disk or
// create an overlay over it before a guest writes to it. The guest needs 512 MiB.
func CloudImage(ctx context.Context, cacheDir string) (string, error) {
	disk, err := cloudImage(ctx, cacheDir)
	if err != nil {
		return "", fmt.Errorf("build the cloud image: %w", err)
	}
	return disk, nil
}

func cloudImage(ctx context.Context, cacheDir string) (string, error) {
	key, err := cloudImageCacheKey()
	if err != nil {
		return "", err
	}
	if cacheDir, err = filepath.Abs(cacheDir); err != nil {
		return "", err
	}
	dir := filepath.Join(cacheDir, "cloud-"+key)
	disk := filepath.Join(dir, "cloud.qcow2")
	if fileExists(dir) {
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
	if fileExists(dir) {
		return disk, nil
	}
	work, err := os.MkdirTemp(cacheDir, ".cloud-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := buildCloudImage(ctx, work); err != nil {
		return "", err
	}
	return disk, os.Rename(filepath.Join(work, "out"), dir)
}

// cloudImageCacheKey returns the name of the cache entry: a hash of everything that this repository adds to the image.
func cloudImageCacheKey() (string, error) {
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

// buildCloudImage builds the image in work/out.
func buildCloudImage(ctx context.Context, work string) error {
	out, grub, scripts := filepath.Join(work, "out"), filepath.Join(work, "grub"), filepath.Join(work, "scripts")
	for _, dir := range []string{out, grub, filepath.Join(work, "packages"), scripts} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unpackNamedPackages(ctx, filepath.Join(work, "packages"), grub, grubPackages); err != nil {
		return err
	}
	files, err := fs.Sub(cloudFiles, "cloud")
	if err != nil {
		return err
	}
	if err := os.CopyFS(scripts, files); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, programPath("bash"), filepath.Join(scripts, "build.sh"), work, filepath.Join(out, "cloud.qcow2"))
	cmd.Env = append(commandEnvironment([]string{"LC_ALL=C"}), "TMPDIR="+work)
	if output, err := cmd.CombinedOutput(); err != nil {
		text := strings.TrimSpace(string(output))
		return fmt.Errorf("run build.sh: %w: %s", err, text[max(0, len(text)-1000):])
	}
	return nil
}

// unpackNamedPackages downloads packages into a directory and unpacks them below root.
func unpackNamedPackages(ctx context.Context, downloads, root string, names []string) error {
	download := func() error {
		cmd := exec.CommandContext(ctx, programPath("apt-get"), append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, names...)...)
		cmd.Dir, cmd.Env = downloads, commandEnvironment([]string{"LC_ALL=C"})
		output, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("download %s: %w: %s", strings.Join(names, " "), err, strings.TrimSpace(string(output)))
		}
		return nil
	}
	if err := download(); err != nil {
		// A new machine has no package lists, and old lists name files that the mirrors have removed.
		if _, uerr := runOutput(ctx, "apt-get", "-q", "update"); uerr != nil {
			return fmt.Errorf("%w; and apt's package lists cannot be updated: %w", err, uerr)
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
		if _, err := runOutput(ctx, "dpkg-deb", "-x", deb, root); err != nil {
			return err
		}
	}
	return nil
}
