//go:build linux

package lab

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// guestModules are the kernel modules that are loaded at boot, after their dependencies. storageModules are loaded
// while the first shell already runs, because it does not need them.
var (
	guestModules   = []string{"virtio_pci", "virtio_console", "virtio_net", "virtio_rng", "button", "evdev"}
	storageModules = []string{"virtio_blk", "virtio_balloon", "virtio_scsi", "sd_mod", "ata_piix", "sr_mod", "isofs", "8021q", "crc32c_generic", "ext4"}
)

// writeInitramfs writes the guest's root file system to the file to, from the packages that are unpacked below root.
func writeInitramfs(root, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	a := newInitramfs(f)
	for _, dir := range []string{
		"bin", "dev", "etc", "etc/acpi", "etc/acpi/PWRF", "lib", "lib64", "modules", "proc", "root", "run", "sbin", "sys",
		"tmp", "usr", "usr/bin", "usr/sbin", "usr/lib", "var", "var/run",
	} {
		a.addDir(dir)
	}
	a.addDevice("dev/console", 5, 1)
	if err := addPrograms(a, root); err != nil {
		return err
	}
	for name, from := range map[string]string{"init": "guest/init", "etc/udhcpc": "guest/udhcpc", "sbin/shutdown": "guest/shutdown"} {
		text, err := guestFiles.ReadFile(from)
		if err != nil {
			return err
		}
		a.addFile(name, text, 0o755)
	}
	a.addFile("etc/acpi/PWRF/00000080", []byte("#!/bin/sh\nsync\nexec poweroff -f\n"), 0o755)
	a.addFile("etc/profile", []byte("export HOME=/root PATH=/sbin:/bin PS1='quantix-guest:\\w# '\ncd\n"), 0o644)
	a.addFile("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644)
	a.addFile("etc/inittab", []byte("::ctrlaltdel:/bin/reboot\n"), 0o644)
	if err := addModules(a, root); err != nil {
		return err
	}
	if err := a.close(); err != nil {
		return err
	}
	return f.Close()
}

// addPrograms adds busybox and the QEMU guest agent with its libraries. The init script later creates the names of
// busybox's programs.
func addPrograms(a *initramfs, root string) error {
	busybox, err := os.ReadFile(filepath.Join(root, "bin/busybox"))
	if errors.Is(err, fs.ErrNotExist) {
		busybox, err = os.ReadFile(filepath.Join(root, "usr/bin/busybox"))
	}
	if err != nil {
		return err
	}
	a.addFile("bin/busybox", busybox, 0o755)
	a.addLink("bin/sh", "busybox")
	agent := filepath.Join(root, "usr/sbin/qemu-ga")
	data, err := os.ReadFile(agent)
	if err != nil {
		return err
	}
	a.addFile("sbin/qemu-ga", data, 0o755)
	return addLibraries(a, root, agent)
}

// addLibraries adds the dynamic loader and all shared libraries of a program.
func addLibraries(a *initramfs, root, program string) error {
	queue, added := []string{program}, map[string]bool{}
	for len(queue) > 0 {
		file, err := elf.Open(queue[0])
		if err != nil {
			return err
		}
		needed, err := file.ImportedLibraries()
		file.Close()
		if err != nil {
			return fmt.Errorf("read the libraries of %s: %w", queue[0], err)
		}
		queue = queue[1:]
		for _, name := range needed {
			if added[name] {
				continue
			}
			added[name] = true
			path, err := findLibrary(root, name)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			a.addFile("lib/"+name, data, 0o755)
			queue = append(queue, path)
		}
	}
	const loader = "ld-linux-x86-64.so.2"
	path, err := findLibrary(root, loader)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	a.addFile("lib64/"+loader, data, 0o755)
	return nil
}

func findLibrary(root, name string) (string, error) {
	for _, dir := range []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64"} {
		path, err := filepath.EvalSymlinks(filepath.Join(root, dir, name))
		if err == nil && strings.HasPrefix(path, root) {
			return path, nil
		}
	}
	return "", fmt.Errorf("the packages do not contain the library %s", name)
}

// addModules adds the modules with their dependencies, and two lists of them in load order.
func addModules(a *initramfs, root string) error {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(d.Name(), ".ko"); err == nil && ok {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	var order []string
	var add func(name string) error
	add = func(name string) error {
		path, ok := files[name]
		if !ok || slices.Contains(order, name+".ko") {
			return nil // modules built into the kernel have no file
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, dep := range moduleDependencies(data) {
			if err := add(dep); err != nil {
				return err
			}
		}
		order = append(order, name+".ko")
		a.addFile("modules/"+name+".ko", data, 0o644)
		return nil
	}
	for _, list := range []struct {
		name    string
		modules []string
	}{{"modules/first", guestModules}, {"modules/storage", storageModules}} {
		from := len(order)
		for _, name := range list.modules {
			if err := add(name); err != nil {
				return err
			}
		}
		a.addFile(list.name, []byte(strings.Join(order[from:], "\n")+"\n"), 0o644)
	}
	return nil
}

// moduleDependencies returns the names in a module's "depends=" entry.
func moduleDependencies(module []byte) []string {
	_, rest, ok := bytes.Cut(module, []byte("\x00depends="))
	if !ok {
		return nil
	}
	list, _, _ := bytes.Cut(rest, []byte{0})
	if len(list) == 0 {
		return nil
	}
	return strings.Split(strings.ReplaceAll(string(list), "-", "_"), ",")
}
