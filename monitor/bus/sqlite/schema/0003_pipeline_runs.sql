-- The newest runs of one pipeline, for its history on the page.

ALTER TABLE run ADD COLUMN pipeline_id TEXT;
UPDATE run SET pipeline_id = json_extract(CAST(body AS TEXT), '$.pipeline.id')
WHERE json_valid(CAST(body AS TEXT));
CREATE INDEX run_pipeline ON run (workspace, kind, pipeline_id, created_at)
WHERE pipeline_id IS NOT NULL;
