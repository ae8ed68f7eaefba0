package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// InstallMissingPackages installs the missing Debian or Ubuntu packages that the purpose needs, as root, and writes its
// progress to out. On other systems the error names the command to run. Services are started or enabled only for Agent,
// because the lab runs its own daemons and the portal its own PostgreSQL. It waits up to five minutes for another
// package manager to finish.
func InstallMissingPackages(ctx context.Context, p Purpose, out io.Writer) error {
	return thisMachine().install(ctx, p, out)
}

func (m *machine) install(ctx context.Context, p Purpose, out io.Writer) error {
	checks, missing := m.checkAll(ctx, p)
	packages := packagesOf(debian, missing)
	command := m.installCommand(missing)
	switch {
	case len(packages) == 0:
		return missingError(checks)
	case m.packageFamily() != debian && command == "":
		return missingError(checks)
	case m.packageFamily() != debian:
		return fmt.Errorf("packages are missing, and Quantix installs them by itself on Debian and Ubuntu only; run: %s; %w", command, missingError(checks))
	case !m.privileged:
		return fmt.Errorf("packages are missing, and only root can install them; run: sudo %s", command)
	}
	if err := m.aptInstall(ctx, p, out, packages); err != nil {
		return fmt.Errorf("install the missing packages with %s: %w", command, err)
	}
	return missingError(m.inspect(ctx, p))
}

func (m *machine) aptInstall(ctx context.Context, p Purpose, out io.Writer, packages []string) error {
	env := []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	if p != Agent {
		q, err := m.blockServices(ctx)
		if err != nil {
			return err
		}
		defer q.unblock(context.WithoutCancel(ctx), out)
		env = append(env, "RUNLEVEL=1")
	}
	apt := func(args ...string) error {
		return m.run(ctx, out, env, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	}
	// A failed update is not fatal: the existing package lists may be enough.
	updateErr := apt("update")
	if err := apt(append([]string{"install", "-y", "--no-install-recommends"}, packages...)...); err != nil {
		if updateErr != nil {
			updateErr = fmt.Errorf("apt-get update: %w", updateErr)
		}
		return errors.Join(err, updateErr)
	}
	return nil
}

// Services in the packages that the lab, the tests, the demo and the portal do not use.
var services = []string{
	"postgresql.service", "libvirtd.service", "libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket", "libvirt-guests.service",
	"openvswitch-switch.service", "ovs-record-hostname.service", "tgt.service", "ceph.target", "ceph-mon.target", "ceph-osd.target", "ceph-crash.service", "virtlogd.socket", "virtlogd-admin.socket", "virtlockd.socket", "virtlockd-admin.socket",
}

const policy = `#!/bin/sh
# Written by "quantix doctor" while it installs packages, so that no service starts. It may be deleted.
exit 101
`

// serviceBlock prevents the start of services during an installation.
type serviceBlock struct {
	m       *machine
	policy  bool            // the policy file was created by this program
	enabled map[string]bool // whether each service was enabled before; nil without systemd
}

// blockServices prevents the start of services with a policy-rc.d file. If the administrator has such a file, it stays
// unchanged.
func (m *machine) blockServices(ctx context.Context) (*serviceBlock, error) {
	q := &serviceBlock{m: m}
	if text, err := os.ReadFile(m.policyFile); err == nil && string(text) == policy {
		q.policy = true // remains of an installation that was killed
	} else if errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(m.policyFile, []byte(policy), 0o755); err != nil {
			return nil, fmt.Errorf("block the start of services during the installation: %w", err)
		}
		q.policy = true
	}
	if _, ok := m.findProgram("systemctl"); ok {
		q.enabled = map[string]bool{}
		for _, service := range services {
			q.enabled[service] = q.isEnabled(ctx, service)
		}
	}
	return q, nil
}

// unblock removes the policy file and disables the services that the packages enabled. It writes failures to out.
func (q *serviceBlock) unblock(ctx context.Context, out io.Writer) {
	if q.policy {
		if err := os.Remove(q.m.policyFile); err != nil {
			fmt.Fprintf(out, "Could not remove %s: %v; remove it, or no package will start its service.\n", q.m.policyFile, err)
		}
	}
	if q.enabled == nil {
		return
	}
	for _, service := range services {
		if q.enabled[service] || !q.isEnabled(ctx, service) {
			continue
		}
		if err := q.systemctl(ctx, "disable", service); err != nil {
			fmt.Fprintf(out, "Could not disable %s: %v; it will start with the machine.\n", service, err)
		}
	}
}

func (q *serviceBlock) isEnabled(ctx context.Context, service string) bool {
	return q.systemctl(ctx, "is-enabled", "--quiet", service) == nil
}

func (q *serviceBlock) systemctl(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return q.m.run(ctx, io.Discard, nil, "systemctl", args...)
}
