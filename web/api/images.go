package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ImagePath holds the id of an image of the library, from the request's path.
type ImagePath struct {
	ID fleet.ImageID `path:"id"`
}

// ImageCopyPath identifies a copy of an image, which is a volume in a pool, from the request's path and query.
type ImageCopyPath struct {
	ImagePath
	Pool   fleet.PoolID `path:"pool"`
	Volume string       `path:"volume" maxLength:"255"`
	Host   fleet.HostID `query:"host" doc:"For a local pool: the host that has the file"`
}

func (in *ImageCopyPath) imageCopy() control.ImageCopy {
	return control.ImageCopy{ImageID: in.ID, PoolID: in.Pool, Volume: in.Volume, HostID: in.Host}
}

type imageOutput struct {
	Location string `header:"Location"`
	Body     imageOutputBody
}

type imageOutputBody struct {
	fleet.ImageView
	OfferedActions
}

func imageAnswer(a fleet.Actor, v fleet.ImageView) imageOutputBody {
	return imageOutputBody{v, OfferedActions{policy.RestrictImageActions(a, v)}}
}

func (api *API) addImage(ctx context.Context, a fleet.Actor, in *struct{ Body control.NewImage }) (*imageOutput, error) {
	id, _, err := api.Control.AddImage(ctx, a, in.Body)
	if err != nil {
		return nil, err
	}
	v, err := api.Control.GetImage(ctx, a, id)
	return &imageOutput{Location: Base + "/images/" + string(id), Body: imageAnswer(a, v)}, err
}

func (api *API) getImage(ctx context.Context, a fleet.Actor, in *ImagePath) (*imageOutput, error) {
	v, err := api.Control.GetImage(ctx, a, in.ID)
	return &imageOutput{Body: imageAnswer(a, v)}, err
}

type editImageInput struct {
	ImagePath
	Body control.EditImage
}

func (api *API) editImage(ctx context.Context, a fleet.Actor, in *editImageInput) (*imageOutput, error) {
	if err := api.Control.EditImage(ctx, a, in.ID, in.Body); err != nil {
		return nil, err
	}
	return api.getImage(ctx, a, &in.ImagePath)
}

type deleteImageInput struct {
	ImagePath
	Confirm string `query:"confirm" doc:"The image's name"`
	Files   bool   `query:"files" doc:"Delete the files of the image's copies too; one task for each"`
}

func (api *API) deleteImage(ctx context.Context, a fleet.Actor, in *deleteImageInput) (*queuedTasksOutput, error) {
	tasks, err := api.Control.DeleteImage(ctx, a, in.ID, in.Confirm, in.Files)
	out := &queuedTasksOutput{}
	out.Body.Tasks = append([]fleet.TaskID{}, tasks...)
	return out, err
}

type queuedTasksOutput struct {
	Body struct {
		Tasks []fleet.TaskID `json:"tasks"`
	}
}

type imageVersionInput struct {
	ImagePath
	Body control.ImageSource
}

func (api *API) addImageVersion(ctx context.Context, a fleet.Actor, in *imageVersionInput) (*taskOutput, error) {
	task, err := api.Control.AddImageVersion(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}

type copyImageInput struct {
	ImagePath
	Body control.NewCopy
}

// copyImage answers without a task if the pool already holds a file with the image's content.
func (api *API) copyImage(ctx context.Context, a fleet.Actor, in *copyImageInput) (*queuedTasksOutput, error) {
	task, err := api.Control.CopyImage(ctx, a, in.ID, in.Body)
	out := &queuedTasksOutput{}
	out.Body.Tasks = []fleet.TaskID{}
	if task.ID != "" {
		out.Body.Tasks = append(out.Body.Tasks, task.ID)
	}
	return out, err
}

func (api *API) verifyImageCopy(ctx context.Context, a fleet.Actor, in *ImageCopyPath) (*taskOutput, error) {
	task, err := api.Control.VerifyCopy(ctx, a, in.imageCopy())
	return &taskOutput{task}, err
}

func (api *API) forgetImageCopy(ctx context.Context, a fleet.Actor, in *ImageCopyPath) (*emptyOutput, error) {
	return nil, api.Control.RemoveCopyFromLibrary(ctx, a, in.imageCopy())
}

type deleteImageCopyInput struct {
	ImageCopyPath
	Confirm string `query:"confirm" doc:"The file's name"`
}

func (api *API) deleteImageCopy(ctx context.Context, a fleet.Actor, in *deleteImageCopyInput) (*queuedTasksOutput, error) {
	task, err := api.Control.DeleteCopy(ctx, a, in.imageCopy(), in.Confirm)
	out := &queuedTasksOutput{}
	out.Body.Tasks = []fleet.TaskID{}
	if task != "" {
		out.Body.Tasks = append(out.Body.Tasks, task)
	}
	return out, err
}

// ImageGrantPath holds the ids of an image and a project with access to the image, from the request's path.
type ImageGrantPath struct {
	ImagePath
	Project string `path:"project" doc:"A project's id, or all"`
}

func (api *API) grantImage(ctx context.Context, a fleet.Actor, in *ImageGrantPath) (*emptyOutput, error) {
	return nil, api.Control.GrantImage(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) revokeImage(ctx context.Context, a fleet.Actor, in *ImageGrantPath) (*emptyOutput, error) {
	return nil, api.Control.RevokeImage(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}
