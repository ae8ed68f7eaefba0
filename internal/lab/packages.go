//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernelPackage is the metapackage of the newest kernel for virtual machines.
const kernelPackage = "linux-image-cloud-amd64"

// guestPackages are the Debian packages for the guest, apart from the kernel and the libraries of the guest agent.
var guestPackages = []string{"busybox-static", "isolinux", "syslinux-common", agentPackage}

// agentPackage holds the QEMU guest agent.
const agentPackage = "qemu-guest-agent"

// unpackPackages downloads the guest's packages and unpacks them below root.
func unpackPackages(ctx context.Context, work, root string) error {
	downloads := filepath.Join(work, "packages")
	if err := os.MkdirAll(downloads, 0o755); err != nil {
		return err
	}
	if err := downloadPackages(ctx, downloads); err != nil {
		// A new machine has no package lists, and old lists name files that the mirrors have removed.
		if _, uerr := runOutput(ctx, "apt-get", "-q", "update"); uerr != nil {
			return fmt.Errorf("%w; and apt's package lists cannot be updated: %w", err, uerr)
		}
		if err := downloadPackages(ctx, downloads); err != nil {
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

func downloadPackages(ctx context.Context, dir string) error {
	names, err := resolvePackages(ctx)
	if err != nil {
		return err
	}
	// For downloads, apt switches to its own user, which cannot write to a private directory. With this option it stays
	// root.
	cmd := exec.CommandContext(ctx, programPath("apt-get"), append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, names...)...)
	cmd.Dir = dir
	cmd.Env = commandEnvironment([]string{"LC_ALL=C"})
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("download Debian packages: %w: %s", errors.Join(ctx.Err(), err), strings.TrimSpace(string(out)))
	}
	return nil
}

// resolvePackages returns the names of all packages to download, according to apt's lists.
func resolvePackages(ctx context.Context) ([]string, error) {
	kernel := ""
	names, err := packageDependencies(ctx, kernelPackage)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "linux-image-") {
			kernel = name
		}
	}
	if kernel == "" {
		return nil, fmt.Errorf("the package %s is unknown to apt: the lab's guest needs Debian's package lists", kernelPackage)
	}
	packages := append([]string{kernel}, guestPackages...)
	// Add the guest agent's libraries, recursively. Only library packages are followed, because they depend on no
	// programs.
	next := []string{agentPackage}
	for len(next) > 0 {
		found, err := packageDependencies(ctx, next...)
		if err != nil {
			return nil, err
		}
		next = nil
		for _, name := range found {
			if strings.HasPrefix(name, "lib") && !slices.Contains(packages, name) {
				packages, next = append(packages, name), append(next, name)
			}
		}
	}
	return packages, nil
}

// packageDependencies lists the real packages that the named packages depend on.
func packageDependencies(ctx context.Context, names ...string) ([]string, error) {
	out, err := runOutput(ctx, "apt-cache", append([]string{"depends", "--important"}, names...)...)
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(out) {
		kind, name, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && strings.HasSuffix(kind, "Depends") && !strings.HasPrefix(name, "<") {
			found = append(found, name)
		}
	}
	return found, nil
}
