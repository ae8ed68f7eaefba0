//go:build linux

package e2e

import (
	"quantix/internal/template"
)

// templateShots returns the shots of a template and of VMs created from it.
func templateShots(base template.View) []pageShot {
	tpl := "/templates/" + string(base.ID)
	return []pageShot{
		{"templates", "/templates", nil},
		{"template", tpl, nil},
		{"template-grants", tpl + "?tab=grants", nil},
		{"template-edit", tpl + "/edit", nil},
		{"template-delete", tpl + "/delete", nil},
		{"template-version-delete", tpl + "/versions/delete?version=" + string(base.Versions[0].ID), nil},
		{"template-menu", tpl, func(p *tab) { p.withMenu(".card header summary", "", "Deprecate") }},
		{"vm-template", "/vms/" + base.Versions[0].Note + "/template", nil},
		{"vm-new-from-template", "/vms/new?template=" + string(base.ID), nil},
		{"vm-new-several-errors", "/vms/new?template=" + string(base.ID), func(p *tab) {
			p.allowFaults("422")
			p.click("#vm-several summary", "")
			p.fillInput("#name", "web")
			p.fillInput("#count", "12")
			p.click("button.primary", "Create VM")
			p.waitText(".field.bad", "VMs need a counter in their name:")
		}},
		{"vm-compare-template", "/vms/compare?id=" + base.Versions[0].Note + "&template=" + string(base.ID) + "&all=1", nil},
		{"template-compare-choose", "/vms/compare?template=" + string(base.ID), nil},
		{"vm-clone", "/vms/new?clone=" + base.Versions[0].Note, nil},
	}
}
