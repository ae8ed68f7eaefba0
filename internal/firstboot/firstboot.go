// Package firstboot configures a guest at its first start. It checks user input, fills in the values of a VM, and
// renders the files of cloud-init, Ignition and Windows. It uses neither a database nor a host.
package firstboot

import (
	"quantix/internal/fleet"
)

// Check adds an error for each invalid field of f. at is the path prefix of the fields. If template is true, values may
// contain variables; such values must be checked again after FillVariables.
func Check(c *fleet.Checks, at string, f fleet.FirstBoot, template bool) {
	in := checker{c, template}
	if at != "" {
		at += "."
	}
	switch f.Kind {
	case "":
		in.add(at+"kind", "Choose how the guest is configured: cloud-init, Ignition or a Windows answer file.")
	case fleet.CloudInit:
		if f.CloudInit == nil {
			in.add(at+"cloudInit", "Fill in the cloud-init form.")
			break
		}
		in.checkForm(at+"cloudInit.", *f.CloudInit)
	case fleet.CloudConfig:
		in.checkCloudConfig(at+"userData", f.UserData)
		in.checkNetworkConfig(at+"networkConfig", f.NetworkConfig)
	case fleet.Ignition:
		in.checkIgnition(at+"userData", f.UserData)
	case fleet.Sysprep:
		in.checkSysprep(at+"userData", f.UserData)
	default:
		in.add(at+"kind", "There is no such kind of first-boot data. Choose cloud-init, cloud-config, ignition or sysprep.")
	}
	if f.Kind != fleet.CloudInit && f.CloudInit != nil {
		in.add(at+"cloudInit", "The form belongs to the kind cloud-init only. Leave it out.")
	}
	if !f.Kind.IsText() && f.UserData != "" {
		in.add(at+"userData", "The text belongs to the kinds cloud-config, ignition and sysprep only. Leave it out.")
	}
	if f.Kind != fleet.CloudConfig && f.NetworkConfig != "" {
		in.add(at+"networkConfig", "The network-config belongs to the kind cloud-config only. Leave it out.")
	}
}

// checker collects errors. If template is true, values may contain variables.
type checker struct {
	c        *fleet.Checks
	template bool
}

func (in checker) add(field, format string, args ...any) { in.c.Add(field, format, args...) }

// require adds an error unless ok is true. A value with a variable is also accepted in a template, because
// FillVariables supplies the value later.
func (in checker) require(ok bool, field, value, format string, args ...any) {
	if deferred := in.template && variableForm.MatchString(value); !ok && !deferred {
		in.add(field, format, args...)
	}
}
