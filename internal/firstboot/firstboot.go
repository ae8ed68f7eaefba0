// Package firstboot is what a guest is told when it first starts: it checks what people give, puts a VM's own values into it, and writes it
// as cloud-init, Ignition and Windows read it. It is pure: it knows no database and no host.
package firstboot

import (
	"quantix/internal/fleet"
)

// Check notes what is wrong with f, each at its field below at. template: it may name variables in place of values, whose form is seen
// only once they are there.
func Check(c *fleet.Checks, at string, f fleet.FirstBoot, template bool) {
	in := checker{c, template}
	if at != "" {
		at += "."
	}
	switch f.Kind {
	case "":
		in.add(at+"kind", "Choose how the guest is told: cloud-init, Ignition or a Windows answer file.")
	case fleet.CloudInit:
		if f.CloudInit == nil {
			in.add(at+"cloudInit", "Say what cloud-init is to do.")
			break
		}
		in.form(at+"cloudInit.", *f.CloudInit)
	case fleet.CloudConfig:
		in.cloudConfig(at+"userData", f.UserData)
		in.networkConfig(at+"networkConfig", f.NetworkConfig)
	case fleet.Ignition:
		in.ignition(at+"userData", f.UserData)
	case fleet.Sysprep:
		in.sysprep(at+"userData", f.UserData)
	default:
		in.add(at+"kind", "There is no such kind of first boot. Choose cloud-init, cloud-config, ignition or sysprep.")
	}
	if f.Kind != fleet.CloudInit && f.CloudInit != nil {
		in.add(at+"cloudInit", "This is for cloud-init filled in as a form alone. Leave it out.")
	}
	if !f.Kind.Raw() && f.UserData != "" {
		in.add(at+"userData", "This is for a text as it is alone. Leave it out.")
	}
	if f.Kind != fleet.CloudConfig && f.NetworkConfig != "" {
		in.add(at+"networkConfig", "This is for cloud-init's user-data as it is alone. Leave it out.")
	}
}

// checker notes what is wrong.
type checker struct {
	c        *fleet.Checks
	template bool
}

func (in checker) add(field, format string, args ...any) { in.c.Add(field, format, args...) }

// want notes that a value is not as it is to be, unless it waits for a variable.
func (in checker) want(ok bool, field, value, format string, args ...any) {
	if waits := in.template && named.MatchString(value); !ok && !waits {
		in.add(field, format, args...)
	}
}
