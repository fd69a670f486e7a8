"""The HTTP service of a model: `ofcl serve`.

A request passes the layers `observed`, `access_check` and `request_limits`, in this order, before
a route of `web_app` answers it.

    web_app          the routes, and the service that answers them
    observed         counts requests, adds headers, lets no error through
    access_check     who may ask: a token, the names of this machine
    request_limits   bytes and seconds of a request, samples, pixels
    uploads          files in a request
    request_samples  JSON and files → decoded samples
    uploaded_images  image files of strangers
    uploaded_tables  tables of strangers
    parquet_child    a script that reads Parquet files with little memory
    batch_worker     the thread that predicts, and joins requests into batches
    answer_json      answers and the model's description as JSON
    replies          refusals, and headers that every answer has
    open_api         the forms of requests and answers
    prometheus       numbers about the service
    http_server      the process: uvicorn, signals, connections
    web/             the pages: HTML, CSS and JavaScript, which load nothing from elsewhere

FastAPI, uvicorn and python-multipart come with `pip install 'ofcl[serve]'`.
"""
