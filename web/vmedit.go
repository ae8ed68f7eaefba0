package web

import (
	"math"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
)

type vmEditForm struct {
	Generation  int64  `form:"generation"`
	Name        string `form:"name"`
	Labels      string `form:"labels"`
	Description string `form:"description"`
	CPUs        string `form:"cpus"`
	Memory      string `form:"memory"`
	Unit        string `form:"unit"`
	ISO         string `form:"iso"`
}

// editOf is the form as the VM is now.
func editOf(vm fleet.VMView) views.VMEdit {
	e := views.VMEdit{
		Name: vm.Name, Labels: views.LabelText(vm.Labels), Description: vm.Description,
		CPUs: strconv.Itoa(vm.Spec.CPUs), Generation: vm.Generation,
	}
	e.Memory, e.Unit = memoryText(vm.Spec.MemoryMiB)
	if iso := vm.Spec.ISO; iso != nil {
		e.ISO = views.Volume(iso.PoolID, iso.Volume)
	}
	return e
}

func (s *Server) editVM(c echo.Context, a fleet.Actor) error {
	in, err := decode[vmEditForm](c)
	if err != nil {
		return err
	}
	id := fleet.VMID(c.Param("id"))
	var checks fleet.Checks
	change := in.read(&checks)
	if err = checks.Err(); err == nil {
		_, _, err = s.Control.UpdateVM(c.Request().Context(), a, id, change)
	}
	e, status, refused := formErrors(err)
	switch {
	case refused:
	case err != nil:
		return err
	default:
		return s.leave(c, views.VMPath(id))
	}
	p, err := s.vmOf(c, a, "configure")
	if err != nil {
		return err
	}
	if err := s.fillTab(c, a, &p); err != nil {
		return err
	}
	p.Edit = views.VMEdit{
		Name: in.Name, Labels: in.Labels, Description: in.Description, CPUs: in.CPUs, Memory: in.Memory, Unit: in.Unit, ISO: in.ISO,
		Generation: in.Generation, ISOs: p.Edit.ISOs, Errors: e,
	}
	return s.showAs(c, formStatus(c, status), a, vmFrame(p.VM), views.VM(p))
}

func (in vmEditForm) read(checks *fleet.Checks) control.UpdateVM {
	cpus, memory := number(checks, "spec.cpus", in.CPUs), memoryOf(checks, "spec.memoryMiB", in.Memory, in.Unit)
	name := strings.TrimSpace(in.Name)
	iso := volumeOf(in.ISO)
	return control.UpdateVM{
		Name: &name, Labels: labelsOf(checks, "labels", in.Labels), Description: &in.Description,
		CPUs: &cpus, MemoryMiB: &memory, ISO: &iso, IfGeneration: in.Generation,
	}
}

// memoryText writes a size in GiB where that is a whole number.
func memoryText(mib int) (text, unit string) {
	if mib%1024 == 0 {
		return strconv.Itoa(mib / 1024), "GiB"
	}
	return strconv.Itoa(mib), "MiB"
}

// memoryOf reads a size in MiB; "1.5" GiB is fine.
func memoryOf(checks *fleet.Checks, field, text, unit string) int {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if unit != "MiB" {
		n *= 1024
	}
	if err != nil || math.IsNaN(n) || n < 0 || n > fleet.MaxMemoryMiB || n != math.Trunc(n) {
		checks.Add(field, "Give the memory as a number of GiB or MiB, up to %d TiB.", fleet.MaxMemoryMiB>>20)
		return 0
	}
	return int(n)
}

// sizeOf reads a disk's size in GiB as bytes; empty is 0.
func sizeOf(checks *fleet.Checks, field, text string) int64 {
	if text = strings.TrimSpace(text); text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > fleet.MaxDiskBytes>>30 {
		checks.Add(field, "Give the size as a number of GiB, up to %d TiB.", fleet.MaxDiskBytes>>40)
		return 0
	}
	return int64(n * (1 << 30))
}

// volumeOf reads a choice made by views.Volume; empty is the zero Volref.
func volumeOf(value string) fleet.Volref {
	pool, volume, _ := strings.Cut(value, "/")
	return fleet.Volref{PoolID: fleet.PoolID(pool), Volume: volume}
}
