package dashboards

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
)

// pictureList is the answer to GET /runs/{run}/pictures: the captions, without the files.
type pictureList struct {
	Pictures []results.Picture `json:"pictures"`
}

func (s *Server) listPictures(w http.ResponseWriter, r *http.Request) error {
	shown := results.Shown{Cell: r.PathValue("cell")}
	if text := r.URL.Query().Get("round"); text != "" {
		round, err := positive("round", text, 1)
		if err != nil {
			return err
		}
		shown.Round = round
	}
	newFlow(w, nil) // there may be one for each round
	found, err := s.api.Pictures(r.Context(), runName(r), shown)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, pictureList{found})
	return nil
}

// positive is a whole number that a request names.
func positive(name, text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s=%.40q %w: expected a whole number from %d on", name, text, control.ErrInput, least)
	}
	return n, nil
}

// showPicture sends one picture. It never changes, and may be kept by who may see it.
func (s *Server) showPicture(w http.ResponseWriter, r *http.Request) error {
	round, err := positive("round", r.PathValue("round"), 1)
	if err != nil {
		return err
	}
	number, err := positive("number", r.PathValue("number"), 0)
	if err != nil {
		return err
	}
	cell := r.PathValue("cell")
	found, err := s.api.Pictures(r.Context(), runName(r), results.Shown{Cell: cell, Round: round})
	if err != nil {
		return err
	}
	if number >= len(found) {
		return fmt.Errorf("run %s, cell %.40q: there is no picture %d after round %d; GET pictures lists those that there are: %w", runName(r), cell, number, round, storage.ErrNotFound)
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "private, max-age=3600")
	send(w, found[number].PNG)
	return nil
}

// Pictures implements control.API.
func (c *Client) Pictures(ctx context.Context, run string, shown results.Shown) ([]results.Picture, error) {
	target := c.runPath(run, "pictures")
	if shown.Cell != "" {
		target = c.runPath(run, "cells", shown.Cell, "pictures")
	}
	if shown.Round > 0 {
		target.RawQuery = url.Values{"round": {strconv.Itoa(shown.Round)}}.Encode()
	}
	var answer pictureList
	if err := c.get(ctx, target, &answer); err != nil {
		return nil, err
	}
	for i := range answer.Pictures {
		p := &answer.Pictures[i]
		var err error
		p.PNG, err = c.getFile(ctx, c.runPath(run, "cells", p.Cell, "pictures", strconv.Itoa(p.Round), strconv.Itoa(p.Number)))
		if err != nil {
			return nil, fmt.Errorf("picture of cell %s after round %d: %w", p.Cell, p.Round, err)
		}
	}
	return answer.Pictures, nil
}
