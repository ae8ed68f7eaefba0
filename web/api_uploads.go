package web

import (
	"context"
	"net/http"

	tus "github.com/tus/tusd/v2/pkg/handler"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// uploadRoutes lists the routes that receive uploads, for browsers and for API clients.
func (s *Server) uploadRoutes() []route {
	make := func(h *tus.UnroutedHandler) http.HandlerFunc { return h.PostFile }
	look := func(h *tus.UnroutedHandler) http.HandlerFunc { return h.HeadFile }
	send := func(h *tus.UnroutedHandler) http.HandlerFunc { return h.PatchFile }
	end := func(h *tus.UnroutedHandler) http.HandlerFunc { return h.DelFile }
	var out []route
	for base, k := range map[string]routeKind{"": sessionTransfer, apiBase: tokenTransfer} {
		at := base + "/uploads/"
		out = append(
			out,
			route{post, base + "/pools/:id/uploads", k, policy.InfraChange, s.uploadHandler(at, make)},
			route{http.MethodHead, at + ":id", k, policy.InfraChange, s.uploadHandler(at, look)},
			route{patch, at + ":id", k, policy.InfraChange, s.uploadHandler(at, send)},
			route{remove, at + ":id", k, policy.InfraChange, s.uploadHandler(at, end)},
		)
	}
	return append(
		out,
		route{put, apiBase + "/pools/:id/uploads/:name", tokenTransfer, policy.InfraChange, s.uploadVolumeInOneRequest},
		route{get, apiBase + "/exports/:id/content", tokenTransfer, policy.VMChange, s.sendExport},
		route{get, apiBase + "/pools/:id/volumes/:volume/content", tokenTransfer, policy.InfraChange, s.sendVolumeByToken},
	)
}

// UploadPath holds the id of an upload, from the request's path.
type UploadPath struct {
	ID fleet.UploadID `path:"id"`
}

type uploadOutput struct{ Body fleet.Upload }

func (s *Server) apiGetUpload(ctx context.Context, a fleet.Actor, in *UploadPath) (*uploadOutput, error) {
	u, err := s.Control.GetUpload(ctx, a, in.ID)
	return &uploadOutput{u}, err
}

type uploadsInput struct {
	Pool fleet.PoolID `query:"pool" doc:"Only uploads into this pool; empty: all pools"`
}

type uploadsOutput struct {
	Body struct {
		Items []fleet.Upload `json:"items"`
	}
}

func (s *Server) apiListUploads(ctx context.Context, a fleet.Actor, in *uploadsInput) (*uploadsOutput, error) {
	var out uploadsOutput
	var err error
	out.Body.Items, err = s.Control.ListUploads(ctx, a, in.Pool)
	return &out, err
}
