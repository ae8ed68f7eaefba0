package web

import (
	"context"
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
)

// diskOf is the dialog about the disk of the address, which must be one that is not there.
func (s *Server) diskOf(c echo.Context, a fleet.Actor) (views.DiskPage, error) {
	p, err := s.vmOf(c, a, "")
	if err != nil {
		return views.DiskPage{}, err
	}
	ref := volumeOf(c.QueryParam("disk"))
	i := slices.IndexFunc(p.VM.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == ref })
	fault := p.VM.FaultOf(ref)
	if i < 0 || fault == nil {
		return views.DiskPage{}, fleet.Errorf(fleet.NotFound, "This VM misses no such disk any more.")
	}
	pools, err := s.poolNames(c.Request().Context(), a)
	d := p.VM.Spec.Disks[i]
	in := views.NewDiskForm{Volume: control.NewDiskName(p.VM)}
	if d.SizeBytes > 0 {
		in.Size = gib(d.SizeBytes)
	}
	return views.DiskPage{VM: p.VM, Disk: d, Pool: pools[d.PoolID], Text: fault.Text, In: in}, err
}

func (s *Server) detachDiskPage(c echo.Context, a fleet.Actor) error {
	p, err := s.diskOf(c, a)
	if err != nil {
		return err
	}
	return s.show(c, a, vmFrame(p.VM), views.DetachDisk(p))
}

func (s *Server) detachDisk(c echo.Context, a fleet.Actor) error {
	id := fleet.VMID(c.Param("id"))
	_, _, err := s.Control.DetachDisk(c.Request().Context(), a, id, volumeOf(c.QueryParam("disk")))
	if e, status, refused := formErrors(err); refused {
		p, err := s.diskOf(c, a)
		if err != nil {
			return err
		}
		p.Errors = e
		return s.showAs(c, formStatus(c, status), a, vmFrame(p.VM), views.DetachDisk(p))
	}
	if err != nil {
		return err
	}
	return s.stay(c, views.VMPath(id), "The disk is taken out of the VM.")
}

func (s *Server) replaceDiskPage(c echo.Context, a fleet.Actor) error {
	p, err := s.diskOf(c, a)
	if err != nil {
		return err
	}
	return s.show(c, a, vmFrame(p.VM), views.ReplaceDisk(p))
}

type replaceDiskForm struct {
	Volume  string `form:"volume"`
	Size    string `form:"size"`
	Content string `form:"content"`
}

func (s *Server) replaceDisk(c echo.Context, a fleet.Actor) error {
	in, err := decode[replaceDiskForm](c)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	disk := control.NewDisk{Volume: in.Volume, SizeBytes: read(&checks, "sizeBytes", in.Size, sizeOf), Clone: in.Content == "clone"}
	id := fleet.VMID(c.Param("id"))
	if err = checks.Err(); err == nil {
		_, _, err = s.Control.ReplaceDisk(c.Request().Context(), a, id, volumeOf(c.QueryParam("disk")), disk)
	}
	if e, status, refused := formErrors(err); refused {
		p, err := s.diskOf(c, a)
		if err != nil {
			return err
		}
		p.In, p.Errors = views.NewDiskForm{Volume: in.Volume, Size: in.Size, Content: in.Content}, e
		return s.showAs(c, formStatus(c, status), a, vmFrame(p.VM), views.ReplaceDisk(p))
	}
	if err != nil {
		return err
	}
	return s.stay(c, views.VMPath(id), "The new disk is asked of the host.")
}

type takeOverForm struct {
	Field  string `form:"field"`
	Actual string `form:"actual"`
}

func (s *Server) takeOverVM(c echo.Context, a fleet.Actor) error {
	in, err := decode[takeOverForm](c)
	if err != nil {
		return err
	}
	id := fleet.VMID(c.Param("id"))
	if _, _, err := s.Control.TakeOver(c.Request().Context(), a, id, map[string]string{in.Field: in.Actual}); err != nil {
		return err
	}
	return s.stay(c, views.VMPath(id), "What the host has is now what is wanted.")
}

func (s *Server) putBackVM(c echo.Context, a fleet.Actor) error {
	id := fleet.VMID(c.Param("id"))
	job, err := s.Control.PutBack(c.Request().Context(), a, id)
	if err != nil {
		return err
	}
	return s.stay(c, views.VMPath(id), "Put back "+job.SubjectName+": asked of "+job.HostName+".")
}

func (s *Server) placeVM(c echo.Context, a fleet.Actor) error {
	vm, err := s.Control.PlaceVM(c.Request().Context(), a, fleet.VMID(c.Param("id")), fleet.HostID(c.Param("host")))
	if err != nil {
		return err
	}
	return s.stay(c, "/vms/"+c.Param("id"), vm.Name+" is on "+vm.HostName+".")
}

type placeVMInput struct {
	VMPath
	Body struct {
		HostID fleet.HostID `json:"hostId" doc:"The VM's own host, or one that \"elsewhere\" names with the VM's mark"`
	}
}

func (s *Server) apiPlaceVM(ctx context.Context, a fleet.Actor, in *placeVMInput) (*vmOutput, error) {
	vm, err := s.Control.PlaceVM(ctx, a, in.ID, in.Body.HostID)
	return changedVM(a)(vm, "", err)
}

type detachDiskInput struct {
	VMPath
	Body struct {
		Disk fleet.Volref `json:"disk" doc:"One that a fault of the VM names"`
	}
}

func (s *Server) apiDetachDisk(ctx context.Context, a fleet.Actor, in *detachDiskInput) (*vmOutput, error) {
	return changedVM(a)(s.Control.DetachDisk(ctx, a, in.ID, in.Body.Disk))
}

type replaceDiskInput struct {
	VMPath
	Body struct {
		Disk fleet.Volref `json:"disk" doc:"One that a fault of the VM names"`
		control.NewDisk
	}
}

func (s *Server) apiReplaceDisk(ctx context.Context, a fleet.Actor, in *replaceDiskInput) (*vmOutput, error) {
	return changedVM(a)(s.Control.ReplaceDisk(ctx, a, in.ID, in.Body.Disk, in.Body.NewDisk))
}

type takeOverInput struct {
	VMPath
	Body struct {
		Fields map[string]string `json:"fields" doc:"Fields of status.drift, each with its \"actual\" as you read it: refused where it has changed since"`
	}
}

func (s *Server) apiTakeOver(ctx context.Context, a fleet.Actor, in *takeOverInput) (*vmOutput, error) {
	return changedVM(a)(s.Control.TakeOver(ctx, a, in.ID, in.Body.Fields))
}

func (s *Server) apiPutBack(ctx context.Context, a fleet.Actor, in *VMPath) (*taskOutput, error) {
	task, err := s.Control.PutBack(ctx, a, in.ID)
	return &taskOutput{task}, err
}

// changedVM answers a change with the VM as it is then, and the task that brings it to the host.
func changedVM(a fleet.Actor) func(fleet.VMView, fleet.TaskID, error) (*vmOutput, error) {
	return func(vm fleet.VMView, task fleet.TaskID, err error) (*vmOutput, error) {
		out := vmAnswer(a, vm)
		out.Task = string(task)
		return out, err
	}
}
