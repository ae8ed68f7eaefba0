package pages

import (
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/deviceclasses"
	"quantix/internal/deviceclass"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	classview "quantix/views/deviceclass"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/options"
)

// ListDeviceClasses shows the device classes that the actor may see.
func (s *Site) ListDeviceClasses(c echo.Context, a fleet.Actor) error {
	all, err := s.Control.ListDeviceClasses(c.Request().Context(), a)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Device classes"}, classview.List(classview.ListPage{Actor: a, Classes: all}))
}

// deviceClassForm is a submitted form of a device class.
type deviceClassForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Generation  string `form:"generation"`
}

func (in deviceClassForm) typed(how form.Display) classview.Form {
	return classview.Form{
		Name: in.Name, Description: in.Description, Generation: form.ParseGeneration(in.Generation), Errors: how.Errors,
	}
}

// ShowNewDeviceClassForm shows the form of a new device class.
func (s *Site) ShowNewDeviceClassForm(c echo.Context, a fleet.Actor, in deviceClassForm, how form.Display) error {
	p := classview.Page{Actor: a, Form: in.typed(how)}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New device class"}, classview.FormPage(p))
}

// CreateDeviceClass creates a device class without devices.
func (s *Site) CreateDeviceClass(c echo.Context, a fleet.Actor, in deviceClassForm) (form.Response, error) {
	to := deviceclass.ClassDefinition{Name: strings.TrimSpace(in.Name), Description: in.Description}
	v, err := s.Control.CreateDeviceClass(c.Request().Context(), a, to)
	return form.RedirectTo(views.DeviceClassPath(v.ID)), err
}

func deviceClassIDFromPath(c echo.Context) fleet.DeviceClassID {
	return fleet.DeviceClassID(c.Param("id"))
}

func deviceClassLayout(v deviceclass.DeviceClass) shell.PageLayout {
	return shell.PageLayout{Title: v.Name}
}

// DeviceClassPage shows a device class with its form.
func (s *Site) DeviceClassPage(c echo.Context, a fleet.Actor) error {
	return s.ShowDeviceClassForm(c, a, deviceClassForm{}, form.FirstDisplay)
}

// ShowDeviceClassForm shows the page of a device class, with the form as stored or as typed.
func (s *Site) ShowDeviceClassForm(c echo.Context, a fleet.Actor, in deviceClassForm, how form.Display) error {
	p, err := s.readDeviceClassPage(c, a)
	if err != nil {
		return err
	}
	if how.WasRefused() {
		p.Form = in.typed(how)
	}
	return s.ShowPageWithStatus(c, how.Status, a, deviceClassLayout(p.Class), classview.FormPage(p))
}

// ShowDeviceClassGrants shows the page of a device class, with the result of a change of its grants.
func (s *Site) ShowDeviceClassGrants(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	p, err := s.readDeviceClassPage(c, a)
	if err != nil {
		return err
	}
	p.GrantErrors = how.Errors
	return s.ShowPageWithStatus(c, how.Status, a, deviceClassLayout(p.Class), classview.FormPage(p))
}

func (s *Site) readDeviceClassPage(c echo.Context, a fleet.Actor) (p classview.Page, err error) {
	ctx := c.Request().Context()
	v, err := s.Control.GetDeviceClass(ctx, a, deviceClassIDFromPath(c))
	if err != nil {
		return p, err
	}
	p = classview.Page{Actor: a, Class: v, Form: classview.NewForm(v), MaySeeHosts: policy.May(a, policy.InfraSee, "")}
	if !policy.May(a, policy.InfraChange, "") {
		return p, nil
	}
	p.Projects, err = s.Options.Choices(ctx, a, options.Query{
		Kind: "device-class-grants", ParentID: string(v.ID), Chosen: []string{classview.GrantToAllProjects},
		FormAddress: views.DeviceClassPath(v.ID), ShowAll: c.QueryParam("all") != "",
	})
	return p, err
}

// EditDeviceClass changes the name and description of a device class.
func (s *Site) EditDeviceClass(c echo.Context, a fleet.Actor, in deviceClassForm) (form.Response, error) {
	id := deviceClassIDFromPath(c)
	err := s.changeDeviceClass(c, a, form.ParseGeneration(in.Generation), func(d *deviceclass.ClassDefinition) {
		d.Name, d.Description = strings.TrimSpace(in.Name), in.Description
	})
	return form.RedirectTo(views.DeviceClassPath(id)), err
}

// changeDeviceClass changes the current definition of the class. ifGeneration is that of the form; 0: the current one.
func (s *Site) changeDeviceClass(c echo.Context, a fleet.Actor, ifGeneration int64, change func(*deviceclass.ClassDefinition)) error {
	ctx, id := c.Request().Context(), deviceClassIDFromPath(c)
	old, err := s.Control.GetDeviceClass(ctx, a, id)
	if err != nil {
		return err
	}
	to := deviceclasses.DeviceClassChange{ClassDefinition: old.Definition(), IfGeneration: ifGeneration}
	if to.IfGeneration == 0 {
		to.IfGeneration = old.Generation
	}
	change(&to.ClassDefinition)
	_, err = s.Control.UpdateDeviceClass(ctx, a, id, to)
	return err
}

// classDevicesForm is the submitted form with devices to add to a class, or with one to remove.
type classDevicesForm struct {
	Devices []string `form:"device"`
	Remove  string   `form:"remove"`
	Text    string   `form:"q" query:"q"`
}

// ShowAddDevices shows devices that can be added to a device class.
func (s *Site) ShowAddDevices(c echo.Context, a fleet.Actor, in classDevicesForm, how form.Display) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetDeviceClass(ctx, a, deviceClassIDFromPath(c))
	if err != nil {
		return err
	}
	if in.Text == "" {
		in.Text = c.QueryParam("q")
	}
	p := classview.AddPage{Class: v, Text: in.Text, Most: deviceclasses.MaxAvailable, Chosen: map[string]bool{}, Errors: how.Errors}
	for _, d := range in.Devices {
		p.Chosen[d] = true
	}
	if p.Devices, err = s.Control.AvailableDevices(ctx, a, in.Text); err != nil {
		return err
	}
	layout := shell.PageLayout{Title: "Add devices to " + v.Name}
	return s.ShowPageWithStatus(c, how.Status, a, layout, classview.AddDevices(p))
}

// ChangeClassDevices adds the chosen devices to a device class, or removes one.
func (s *Site) ChangeClassDevices(c echo.Context, a fleet.Actor, in classDevicesForm) (form.Response, error) {
	var checks fleet.Checks
	if len(in.Devices) == 0 {
		checks.Add("members", "Select at least one device.")
		return nil, checks.Err()
	}
	err := s.changeDeviceClass(c, a, 0, func(d *deviceclass.ClassDefinition) {
		for _, text := range in.Devices {
			host, device, _ := strings.Cut(text, " ")
			m := deviceclass.ClassMember{HostID: fleet.HostID(host), Device: device}
			d.Members = slices.DeleteFunc(d.Members, func(o deviceclass.ClassMember) bool { return o == m })
			if in.Remove == "" {
				d.Members = append(d.Members, m)
			}
		}
	})
	return form.RedirectTo(views.DeviceClassPath(deviceClassIDFromPath(c))), err
}

// SetDeviceClassGrant publishes a device class to a project, or withdraws it from the project.
func (s *Site) SetDeviceClassGrant(c echo.Context, a fleet.Actor, in grantForm) (form.Response, error) {
	set := s.Control.GrantDeviceClass
	if in.Revoke != "" {
		set = s.Control.RevokeDeviceClass
	}
	id := deviceClassIDFromPath(c)
	err := setGrant(c, a, set, id, in.Project)
	return form.Redraw(views.DeviceClassPath(id), func(c echo.Context) error {
		return s.ShowDeviceClassGrants(c, a, in, form.FirstDisplay)
	}), err
}

// ConfirmDeleteDeviceClass is the dialog that deletes a device class.
func (s *Site) ConfirmDeleteDeviceClass() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetDeviceClass, deviceClassLayout, classview.DeleteDialog)
}

// DeleteDeviceClass deletes a device class.
func (s *Site) DeleteDeviceClass(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/device-classes"), s.Control.DeleteDeviceClass(c.Request().Context(), a, deviceClassIDFromPath(c))
}
